// Feeds any bytes to the reader of recorded turns: it accepts or refuses with one line, and what it
// accepts can be played.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/schedule/turns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_schedule_turns turns;
  struct rondo_sim_error error = {""};
  struct rondo_sim_text said = {0};
  bool ok = rondo_schedule_turns_parse(&turns, (const char *)data, size, "fuzz", &error);
  if (ok == (error.text[0] != 0) || strchr(error.text, '\n')) {
    abort();
  }
  if (ok && rondo_schedule_turns_play(&turns, &said) == (said.size_bytes > 0)) {
    abort();
  }
  rondo_sim_text_fini(&said);
  rondo_schedule_turns_fini(&turns);
  return 0;
}
