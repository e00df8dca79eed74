// Feeds any bytes to the reader of programs of rondo-sim schedule: it accepts or refuses with one
// line, and what it accepts is within the bounds of a program.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "sim/schedule/program.h"
#include <rondo/rondo.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_sound(const struct rondo_schedule_statement *x) {
  return x->kind >= 0 && x->kind < RONDO_KIND_COUNT && x->algorithm < RONDO_ALGORITHM_COUNT &&
         x->size <= RONDO_MAX_RANKS && x->stride >= 1 && x->copies >= 1 && x->times >= 1 &&
         strnlen(x->name, sizeof x->name) < sizeof x->name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_schedule_statements s = {0};
  struct rondo_schedule_statement like = rondo_schedule_statement_default();
  struct rondo_sim_error error = {""};
  char *text = malloc(size + 1);
  if (!text || size > 4096) {
    free(text);
    return 0;
  }
  memcpy(text, data, size);
  text[size] = 0;
  bool ok = rondo_schedule_program_parse(&s, text, "fuzz", &like, &error);
  if (ok == (error.text[0] != 0) || strchr(error.text, '\n')) {
    abort();
  }
  for (uint32_t i = 0; ok && i < s.count; i++) {
    if (!is_sound(&s.items[i])) {
      abort();
    }
  }
  free(s.items);
  free(text);
  return 0;
}
