// Chakra execution traces of any content must be taken or refused with one line. What is taken has
// only collectives that there are, of ranks that are in them. Before each trace stand two bytes
// with its size, the low one first. If the highest bit of the size is set, the first message is not
// in the input, so that random bytes get past it.
#include "sim/schedule/chakra.h"
#include "tests/support/analyse_input.h"
#include "tests/support/fuzz.h"

#define MOST_TRACES 4
#define MOST_BYTES 0x7fffu

static bool trace_read(struct rondo_schedule_trace *t, const uint8_t *data, size_t size, bool whole,
                       struct rondo_analyse_strings *strings, struct rondo_sim_error *error) {
  static uint8_t bytes[MOST_BYTES + 4] = {3, 1 << 3 | 2, 1, '1'}; // version "1"
  struct rondo_analyse_input in;
  memcpy(bytes + 4, data, size);
  rondo_test_input(&in, whole ? data : bytes, whole ? size : size + 4);
  bool ok = rondo_schedule_trace_read(t, &in, "input", strings, error);
  rondo_analyse_input_close(&in);
  return ok;
}

static bool is_member(const struct rondo_schedule_replay *r, uint32_t statement, uint32_t rank) {
  bool found = !r->members[statement];
  for (uint32_t i = 0; !found && i < r->statements.items[statement].size; i++)
    found = r->members[statement][i] == rank;
  return found;
}

static void graph_check(const struct rondo_schedule_graph *g, uint32_t calls) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < g->node_count; i++) {
    const struct rondo_schedule_node *n = &g->nodes[i];
    RONDO_FUZZ_CHECK(n->call == RONDO_SCHEDULE_COMPUTES || n->call == next);
    RONDO_FUZZ_CHECK(n->lane < RONDO_SCHEDULE_LANES);
    next += n->call != RONDO_SCHEDULE_COMPUTES;
    for (uint32_t k = 0; k < n->child_count; k++)
      RONDO_FUZZ_CHECK(g->children[n->first_child + k] < g->node_count);
  }
  RONDO_FUZZ_CHECK(next == calls);
}

static void replay_check(const struct rondo_schedule_replay *r) {
  RONDO_FUZZ_CHECK(r->statements.count > 0 && r->first_call[0] == 0);
  for (uint32_t rank = 0; rank < r->statements.rank_count; rank++) {
    uint32_t first = r->first_call[rank], end = r->first_call[rank + 1];
    RONDO_FUZZ_CHECK(first <= end);
    graph_check(&r->graphs[rank], end - first);
    for (uint32_t i = first; i < end; i++) {
      RONDO_FUZZ_CHECK(r->calls[i].collective < r->statements.count);
      RONDO_FUZZ_CHECK(is_member(r, r->calls[i].collective, rank));
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_schedule_trace traces[MOST_TRACES];
  struct rondo_schedule_replay replay = {0};
  struct rondo_analyse_strings strings;
  struct rondo_sim_error error = {""};
  uint32_t count = 0;
  bool ok = true;
  rondo_analyse_strings_init(&strings);
  while (ok && size > 2 && count < MOST_TRACES) {
    bool whole = data[1] < 0x80;
    size_t bytes = (data[0] | (size_t)data[1] << 8) & MOST_BYTES;
    bytes = bytes < size - 2 ? bytes : size - 2;
    ok = trace_read(&traces[count++], data + 2, bytes, whole, &strings, &error);
    data += 2 + bytes;
    size -= 2 + bytes;
  }
  ok = ok && count && rondo_schedule_chakra_make(&replay, traces, count, &strings, &error);
  if (ok)
    replay_check(&replay);
  else
    RONDO_FUZZ_CHECK(!count || (error.text[0] && !strchr(error.text, '\n')));
  free(replay.statements.items);
  rondo_schedule_replay_fini(&replay);
  for (uint32_t i = 0; i < count; i++)
    rondo_schedule_trace_fini(&traces[i]);
  rondo_analyse_strings_fini(&strings);
  return 0;
}
