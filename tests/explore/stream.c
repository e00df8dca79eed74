// Streams of the ranks' applications, for runs that are tied to a stream.
#include "tests/explore/machine.h"

struct rondo_tie explore_stream_tie(struct explore_machine *m, struct explore_run *run) {
  struct explore_rank *r = &m->ranks[run->rank];
  struct rondo_tie tie = {0};
  if (!m->program.tied_percent || !random_chance(&m->random, m->program.tied_percent))
    return tie;
  run->is_tied = 1;
  run->wrong_at_end = -1;
  // Words that have been used before, or those of a graph.
  run->ticket = 1 + random_below(&m->random, 3);
  run->words.doorbell = run->words.completion = run->ticket - 1;
  if (random_chance(&m->random, 30)) {
    run->ticket = RONDO_TICKET_REPLAYED | 1;
    run->words.doorbell = run->words.completion = 0;
  }
  r->tied[r->tied_count++] = run;
  tie.words = &run->words;
  tie.ticket = run->ticket;
  return tie;
}

static void ring(struct explore_machine *m, struct explore_run *run) {
  explore_trace(m, "rank %u coll %u period %u run %u: its stream rings", run->rank, run->coll,
                run->period, run->number);
  for (size_t i = 0; i < run->memory_bytes; i++)
    if (run->memory[i] != run->memory[0])
      explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u: begun before its stream",
                   run->rank, run->coll, run->period, run->number);
  explore_run_fill(m, run);
  run->rung = 1;
  rondo_store_release_u64(&run->words.doorbell, run->ticket);
}

// The stream goes on, maybe before anybody has seen the completion.
static void pass(struct explore_machine *m, struct explore_run *run) {
  explore_trace(m, "rank %u coll %u period %u run %u: its stream goes on", run->rank, run->coll,
                run->period, run->number);
  run->released = 1;
  run->wrong_at_end = explore_run_find_wrong(m, run);
}

int explore_stream_act(struct explore_machine *m, uint32_t rank) {
  struct explore_rank *r = &m->ranks[rank];
  if (!r->tied_count)
    return 0;
  struct explore_run *run = r->tied[random_below(&m->random, r->tied_count)];
  if (!run->rung)
    ring(m, run);
  else if (!run->released && rondo_load_acquire_u64(&run->words.completion) == run->ticket)
    pass(m, run);
  else
    return 0;
  return 1;
}

// A launch on a GPU stays while its block counts a run that a stream waits for.
void explore_stream_watch(struct explore_machine *m, const struct rondo_block *b, uint32_t rank) {
  uint32_t tied = 0;
  for (uint32_t i = 0; i < b->queue.count; i++) {
    uint32_t index = rondo_task_index(rondo_task_entries(&b->queue)[i]);
    const struct rondo_context_dynamic *s = &rondo_block_context(b, index)->state;
    tied += s->phase > RONDO_PHASE_GATE && s->run.stream;
  }
  if (tied != b->tied)
    explore_fail(m, EXPLORE_WRONG, "rank %u block %u: counts %u begun tied runs instead of %u",
                 rank, b->index, b->tied, tied);
}

void explore_stream_end(struct explore_machine *m, struct explore_run *run, int status) {
  struct explore_rank *r = &m->ranks[run->rank];
  uint32_t at = 0;
  while (r->tied[at] != run)
    at++;
  r->tied[at] = r->tied[--r->tied_count];
  if (status == RONDO_SUCCESS && !run->rung)
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u: ended before its stream rang",
                 run->rank, run->coll, run->period, run->number);
  if (run->words.completion != run->ticket)
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u: its stream is not let go on",
                 run->rank, run->coll, run->period, run->number);
  if (status == RONDO_SUCCESS && (run->ticket & RONDO_TICKET_REPLAYED) && run->words.doorbell)
    explore_fail(m, EXPLORE_WRONG,
                 "rank %u coll %u period %u run %u: the doorbell is not taken back", run->rank,
                 run->coll, run->period, run->number);
  if (status == RONDO_SUCCESS && run->wrong_at_end >= 0)
    explore_fail(m, EXPLORE_WRONG,
                 "rank %u coll %u period %u run %u: element %lld is wrong when its stream goes on",
                 run->rank, run->coll, run->period, run->number, (long long)run->wrong_at_end);
}
