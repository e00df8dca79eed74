// Flight records of any content must be replayed or refused with one line. What is replayed has
// only collectives that there are, of ranks that are in them. A zero byte separates the records.
#include "sim/analyse/read.h"
#include "sim/schedule/replay.h"
#include "tests/support/analyse_input.h"
#include "tests/support/fuzz.h"

#define MOST_RECORDS 4

static uint32_t records_read(struct rondo_analyse_record *records, const uint8_t *data,
                             size_t size) {
  uint32_t count = 0;
  while (size > 0 && count < MOST_RECORDS) {
    struct rondo_analyse_input in;
    const uint8_t *end = memchr(data, 0, size);
    size_t bytes = end ? (size_t)(end - data) : size;
    rondo_analyse_record_init(&records[count], "input");
    rondo_test_input(&in, data, bytes);
    rondo_analyse_read(&records[count++], &in);
    rondo_analyse_input_close(&in);
    data += bytes + (end != NULL);
    size -= bytes + (end != NULL);
  }
  return count;
}

static bool is_member(const struct rondo_schedule_replay *r, uint32_t statement, uint32_t rank) {
  bool found = !r->members[statement];
  for (uint32_t i = 0; !found && i < r->statements.items[statement].size; i++)
    found = r->members[statement][i] == rank;
  return found;
}

static void replay_check(const struct rondo_schedule_replay *r) {
  RONDO_FUZZ_CHECK(r->statements.count > 0 && r->first_call[0] == 0);
  for (uint32_t rank = 0; rank < r->statements.rank_count; rank++) {
    RONDO_FUZZ_CHECK(r->first_call[rank] <= r->first_call[rank + 1]);
    for (uint32_t i = r->first_call[rank]; i < r->first_call[rank + 1]; i++) {
      RONDO_FUZZ_CHECK(r->calls[i].collective < r->statements.count);
      RONDO_FUZZ_CHECK(is_member(r, r->calls[i].collective, rank));
    }
  }
  for (uint32_t i = 0; i < r->statements.count; i++)
    RONDO_FUZZ_CHECK(r->statements.items[i].size <= r->statements.rank_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_analyse_record records[MOST_RECORDS];
  struct rondo_schedule_replay replay;
  struct rondo_sim_error error = {""};
  uint32_t count = records_read(records, data, size);
  if (count == 0)
    return 0;
  if (rondo_schedule_replay_make(&replay, records, count, &error))
    replay_check(&replay);
  else
    RONDO_FUZZ_CHECK(error.text[0] && !strchr(error.text, '\n'));
  free(replay.statements.items);
  rondo_schedule_replay_fini(&replay);
  for (uint32_t i = 0; i < count; i++)
    rondo_analyse_record_fini(&records[i]);
  return 0;
}
