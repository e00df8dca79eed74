#include "daemon/plan/verify_member.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "daemon/plan/verify_shape.h"
#include "rondo/types.h"

// The execution of one op, for its chunks one after the other.
struct step {
  const struct rondo_plan_op *op;
  struct rondo_plan_where at;
  uint32_t index;  // of the chunk in the message
  uint32_t number; // of the chunk in the plan; `at` has its place in the buffer
  struct rondo_verify_connector *send, *recv; // or null
  struct rondo_verify_slot *sent, *received;  // or null
  struct rondo_verify_symbol value;
};

// ------------------------------------------------------------------- symbols ---

// Word `word` of the set that holds `rank` alone.
static uint64_t set_word(uint32_t rank, uint32_t word) {
  return rank / 64 == word ? UINT64_C(1) << (rank % 64) : 0;
}

// Word `word` of the set of all ranks.
static uint64_t set_word_of_all(const struct rondo_verify_machine *m, uint32_t word) {
  uint32_t rest = m->what->nranks - word * 64;
  return rest >= 64 ? UINT64_MAX : (UINT64_C(1) << rest) - 1;
}

static uint32_t lowest_rank(uint32_t word, uint64_t bits) {
  return word * 64 + (uint32_t)__builtin_ctzll(bits);
}

// The lowest rank that is in both sets, or NOWHERE.
static uint32_t set_common(const struct rondo_verify_machine *m, const uint64_t *a,
                           const uint64_t *b) {
  for (uint32_t i = 0; i < m->set_words; i++) {
    if (a[i] & b[i])
      return lowest_rank(i, a[i] & b[i]);
  }
  return RONDO_PLAN_NOWHERE;
}

// Whether the set holds `rank` alone.
static bool set_is(const struct rondo_verify_machine *m, const uint64_t *set, uint32_t rank) {
  uint64_t differs = 0;
  for (uint32_t i = 0; i < m->set_words; i++)
    differs |= set[i] ^ set_word(rank, i);
  return differs == 0;
}

// Copies all but the memory of the set.
static void symbol_copy(const struct rondo_verify_machine *m, struct rondo_verify_symbol *to,
                        const struct rondo_verify_symbol *from) {
  uint64_t *set = to->from;
  *to = *from;
  to->from = set;
  memcpy(set, from->from, m->set_words * sizeof(*set));
}

static uint64_t order_mix(uint64_t x) {
  x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ x >> 32;
}

// A contribution that nothing was reduced with. Never 0.
static uint64_t order_of_rank(uint32_t rank) { return order_mix(rank + UINT64_C(1)); }

// No reduction depends on which of its two operands comes first (docs/numerics.md), so their order
// does not count; how sums are nested does.
static uint64_t order_of_reduction(uint64_t a, uint64_t b) { return order_mix(a + b); }

// Quantising changes bits, also of what a message has held before: its scale may be another one.
static uint64_t order_of_quantising(uint64_t a) { return order_mix(~a); }

// ------------------------------------------------------------------- buffers ---

bool rondo_verify_kind_is_exchange(int kind) {
  return kind == RONDO_ALL_TO_ALL || kind == RONDO_ALL_TO_ALL_V;
}

static bool is_exchange(const struct rondo_plan_verify_case *what) {
  return rondo_verify_kind_is_exchange(what->kind);
}

// Whether the send buffer of each rank holds its own part alone.
static bool is_gathered(const struct rondo_plan_verify_case *what) {
  return rondo_plan_base(what->kind) == RONDO_PRIM_IN_BASE;
}

// Whether the receive buffer of each rank holds its own part alone.
static bool is_scattered(const struct rondo_plan_verify_case *what) {
  return rondo_plan_base(what->kind) == RONDO_PRIM_OUT_BASE;
}

// Chunks of the send buffer that a rank has; 0 where it may be null.
static uint32_t input_count(const struct rondo_plan_verify_case *what, uint32_t rank) {
  bool from_root =
      what->kind == RONDO_BROADCAST || what->kind == RONDO_SCATTER || what->kind == RONDO_SEND_RECV;
  if (what->kind == RONDO_BARRIER || (from_root && rank != what->root))
    return 0;
  return is_gathered(what) ? 1 : what->plans[0].chunk_count;
}

static uint32_t output_count(const struct rondo_plan_verify_case *what, uint32_t rank) {
  bool to_root = what->kind == RONDO_REDUCE || what->kind == RONDO_GATHER;
  bool is_sender = what->kind == RONDO_SEND_RECV && rank == what->root && what->nranks > 1;
  if (what->kind == RONDO_BARRIER || is_sender || (to_root && rank != what->root))
    return 0;
  return is_scattered(what) ? 1 : what->plans[0].chunk_count;
}

// Places of a member. If one chunk is followed, it has one place in each buffer.
static uint32_t input_place(const struct rondo_plan_verify_case *what, uint32_t rank,
                            uint32_t index) {
  if (what->one_chunk)
    return 0;
  return what->in_place && is_gathered(what) ? rank + index : index;
}

static uint32_t output_place(const struct rondo_plan_verify_case *what, uint32_t rank,
                             uint32_t index) {
  if (what->one_chunk)
    return !what->in_place;
  if (!what->in_place)
    return what->plans[0].chunk_count + index;
  return is_scattered(what) ? rank + index : index;
}

// Which elements a chunk holds. Where each pair of ranks has its own, they are counted by pairs;
// where a buffer holds the rank's own part alone, that is its first chunk.
static uint32_t input_identity(const struct rondo_plan_verify_case *what, uint32_t rank,
                               uint32_t index) {
  if (is_exchange(what))
    return rank * what->nranks + index;
  return is_gathered(what) ? rank : index;
}

static uint32_t output_identity(const struct rondo_plan_verify_case *what, uint32_t rank,
                                uint32_t index) {
  if (is_exchange(what))
    return index * what->nranks + rank;
  return is_scattered(what) ? rank : index;
}

// The first place of scratch: those of the buffers come before.
static uint32_t scratch_place(const struct rondo_plan_verify_case *what) {
  return what->one_chunk ? 2 : 2 * what->plans[0].chunk_count;
}

static uint32_t place_count(const struct rondo_plan_verify_case *what, uint32_t rank) {
  uint32_t scratch = what->plans[rank].scratch_count;
  return scratch_place(what) + (what->one_chunk ? scratch > 0 : scratch);
}

// Whether the chunk with these elements is followed.
static bool is_followed(const struct rondo_plan_verify_case *what, uint32_t identity) {
  return !what->one_chunk || identity == what->one_chunk - 1;
}

// Loops in which rank `from` has a chunk for rank `to`: the chunk of the first loop tells the size
// of the part, so it is never absent.
static uint64_t pair_loops(const struct rondo_plan_verify_case *what, uint32_t from, uint32_t to) {
  if (!what->pair_loops)
    return what->loops;
  uint32_t loops = what->pair_loops[(size_t)from * what->nranks + to];
  return loops ? loops : 1;
}

// Loops that a rank makes in all: as many as any of its pairs has.
static uint64_t member_loops(const struct rondo_plan_verify_case *what, uint32_t rank) {
  uint64_t most = 0;
  if (!what->pair_loops)
    return what->loops;
  for (uint32_t other = 0; other < what->nranks; other++) {
    uint64_t out = pair_loops(what, rank, other), in = pair_loops(what, other, rank);
    most = out > most ? out : most;
    most = in > most ? in : most;
  }
  return most;
}

// Loops of whose buffers the verifier keeps the contents.
static uint64_t kept_loops(const struct rondo_plan_verify_case *what, uint32_t rank) {
  return what->plans[rank].first_pass ? what->loops : 1;
}

// Goes to the buffers of the loop that a rank begins, in either pass.
static void buffers_find(const struct rondo_verify_machine *m, uint32_t rank) {
  struct rondo_verify_member *me = &m->members[rank];
  uint64_t at = me->loop % kept_loops(m->what, rank) * place_count(m->what, rank);
  me->places = me->all_places + at;
  me->sets = me->all_sets + at * m->set_words;
}

// Fresh buffers for the loop that a rank begins in its first pass.
static void buffers_reset(const struct rondo_verify_machine *m, uint32_t rank) {
  struct rondo_verify_member *me = &m->members[rank];
  buffers_find(m, rank);
  if (!m->what->plans[rank].first_pass)
    me->reference_count = 0;
  assert(me->sets != NULL); // a member that was not made is not run
  for (uint32_t i = 0; i < place_count(m->what, rank); i++)
    me->places[i] = (struct rondo_verify_place){.symbol.from = me->sets + (size_t)i * m->set_words};
  for (uint32_t i = 0; i < input_count(m->what, rank); i++) {
    uint32_t at = input_place(m->what, rank, i);
    if (!is_followed(m->what, input_identity(m->what, rank, i)))
      continue;
    uint64_t *set = me->sets + (size_t)at * m->set_words;
    me->places[at].symbol = (struct rondo_verify_symbol){.loop = me->loop,
                                                         .chunk = input_identity(m->what, rank, i),
                                                         .order = order_of_rank(rank),
                                                         .from = set};
    for (uint32_t word = 0; word < m->set_words; word++)
      set[word] = set_word(rank, word);
  }
}

// --------------------------------------------------------------------- steps ---

// The rank whose contribution is a result chunk of a kind that does not reduce.
static uint32_t source_of(const struct rondo_plan_verify_case *what, uint32_t chunk) {
  if (is_exchange(what))
    return chunk / what->nranks;
  return is_gathered(what) ? chunk : what->root;
}

// The lowest rank whose contribution the value lacks or, `has`, has although its chunk must not
// hold it; NOWHERE: the value is the whole result.
static uint32_t value_wrong(const struct rondo_verify_machine *m,
                            const struct rondo_verify_symbol *value, bool *has) {
  for (uint32_t i = 0; i < m->set_words; i++) {
    uint64_t wanted = rondo_plan_reduces(m->what->kind)
                          ? set_word_of_all(m, i)
                          : set_word(source_of(m->what, value->chunk), i);
    uint64_t wrong = value->from[i] ^ wanted;
    *has = wrong & value->from[i] & -wrong;
    if (wrong)
      return lowest_rank(i, wrong);
  }
  return RONDO_PLAN_NOWHERE;
}

// How far chunk `index` of an execution is after the first one.
static uint32_t chunk_distance(const struct rondo_plan_op *op, uint32_t index) {
  uint32_t left_out = op->primitive & RONDO_PRIM_RUNS ? index / op->chunk_stride : 0;
  return index + left_out * op->chunk_stride;
}

// Goes to the next execution of an op, which may be the first one of op `op_count`.
static void position_advance(const struct rondo_plan *plan, struct rondo_verify_position *at) {
  const struct rondo_plan_op *op = &plan->ops[at->op];
  if (++at->repeat < op->repeat)
    return;
  at->repeat = 0;
  if (op->round_ops && at->round_chunk + plan->round_chunks < plan->chunk_count) {
    at->round_chunk += plan->round_chunks;
    at->op -= op->round_ops - 1;
    return;
  }
  if (op->round_ops)
    at->round_chunk = 0;
  at->op++;
}

// Chunk `index` of an execution of an op.
static uint32_t chunk_number(const struct rondo_plan *plan, const struct rondo_verify_position *at,
                             uint32_t index) {
  const struct rondo_plan_op *op = &plan->ops[at->op];
  uint64_t first = op->first_chunk + at->round_chunk + (uint64_t)at->repeat * op->chunk_stride;
  return (uint32_t)((first + chunk_distance(op, index)) % plan->chunk_count);
}

// The place of a chunk in the buffer.
static uint32_t chunk_place(const struct rondo_verify_machine *m, const struct rondo_plan *plan,
                            uint32_t number) {
  if (!plan->by_place)
    return number;
  return rondo_plan_topology_at(m->what->topology,
                                rondo_plan_lane_place(plan->nranks, plan->by_place, number));
}

static uint32_t chunk_of(const struct rondo_verify_machine *m, const struct rondo_plan *plan,
                         const struct rondo_verify_position *at, uint32_t index) {
  return chunk_place(m, plan, chunk_number(plan, at, index));
}

static uint32_t input_index(const struct step *step) {
  return step->op->primitive & RONDO_PRIM_IN_BASE ? 0 : step->at.chunk;
}

static uint32_t output_index(const struct step *step) {
  return step->op->primitive & RONDO_PRIM_OUT_BASE ? 0 : step->at.chunk;
}

// This rank's own contribution; null: there is none, and the report says why.
static const struct rondo_verify_symbol *input_read(const struct rondo_verify_machine *m,
                                                    const struct step *step) {
  uint32_t rank = step->at.rank, index = input_index(step);
  if (index >= input_count(m->what, rank)) {
    (void)rondo_plan_verify_fault(m->report, step->at, "reads beyond the send buffer");
    return NULL;
  }
  const struct rondo_verify_place *place =
      &m->members[rank].places[input_place(m->what, rank, index)];
  if (!place->begun && !place->symbol.finished &&
      place->symbol.chunk == input_identity(m->what, rank, index) &&
      set_is(m, place->symbol.from, rank))
    return &place->symbol;
  (void)rondo_plan_verify_fault(m->report, step->at, "reads its input after writing over it");
  return NULL;
}

// What earlier ops of the loop have put into the receive buffer; null as above.
static const struct rondo_verify_symbol *result_read(const struct rondo_verify_machine *m,
                                                     const struct step *step) {
  uint32_t rank = step->at.rank, index = output_index(step);
  if (index >= output_count(m->what, rank)) {
    (void)rondo_plan_verify_fault(m->report, step->at, "reads beyond the receive buffer");
    return NULL;
  }
  const struct rondo_verify_place *place =
      &m->members[rank].places[output_place(m->what, rank, index)];
  if (place->begun || place->written)
    return &place->symbol;
  (void)rondo_plan_verify_fault(m->report, step->at, "reads a result that nobody has begun");
  return NULL;
}

// Where the step's chunk is in scratch; null as above. The chunks of an op lie there in its order,
// not round the end.
static struct rondo_verify_place *scratch_at(const struct rondo_verify_machine *m,
                                             const struct step *step) {
  const struct rondo_plan *plan = &m->what->plans[step->at.rank];
  bool mirrors = step->op->primitive & RONDO_PRIM_MIRROR;
  uint32_t n = plan->chunk_count, done = chunk_distance(step->op, step->index);
  uint32_t place = (step->number + n - plan->scratch_first) % n;
  if (mirrors)
    place = (n - place) % n;
  if (place < plan->scratch_count && (mirrors ? place + done < n : place >= done))
    return &m->members[step->at.rank]
                .places[scratch_place(m->what) + (m->what->one_chunk ? 0 : place)];
  (void)rondo_plan_verify_fault(m->report, step->at, "goes beyond the scratch");
  return NULL;
}

// What earlier ops of the loop have put into scratch; null as above.
static const struct rondo_verify_symbol *scratch_read(const struct rondo_verify_machine *m,
                                                      const struct step *step) {
  struct rondo_verify_place *place = scratch_at(m, step);
  if (place == NULL)
    return NULL;
  if (!place->written) {
    (void)rondo_plan_verify_fault(m->report, step->at, "reads scratch that nothing has written");
    return NULL;
  }
  place->unread = false;
  return &place->symbol;
}

static const struct rondo_verify_symbol *local_read(const struct rondo_verify_machine *m,
                                                    const struct step *step) {
  if (step->op->primitive & RONDO_PRIM_IN_SCRATCH)
    return scratch_read(m, step);
  return step->op->primitive & RONDO_PRIM_RESULT ? result_read(m, step) : input_read(m, step);
}

// Reduces the local chunk into the incoming symbol, or the input into what was read from scratch.
static bool local_reduce(const struct rondo_verify_machine *m, struct step *step) {
  const struct rondo_verify_symbol *local = step->recv ? local_read(m, step) : input_read(m, step);
  struct rondo_verify_symbol *value = &step->value;
  if (local == NULL)
    return false;
  if (value->loop != local->loop || value->chunk != local->chunk)
    return rondo_plan_verify_fault(m->report, step->at, "reduces with chunk %u of loop %llu",
                                   value->chunk, (unsigned long long)value->loop);
  if (value->finished || local->finished)
    return rondo_plan_verify_fault(m->report, step->at, "reduces with a finished result");
  uint32_t twice = set_common(m, value->from, local->from);
  if (twice != RONDO_PLAN_NOWHERE)
    return rondo_plan_verify_fault(m->report, step->at, "adds rank %u a second time", twice);
  for (uint32_t i = 0; i < m->set_words; i++)
    value->from[i] |= local->from[i];
  value->order = order_of_reduction(value->order, local->order);
  value->quantised = false;
  return true;
}

// Takes the oldest slot. If its sender is still in the loop of the slot, or comes back to it in
// another pass, note when its reference was taken; else the place that it named is out of reach of
// further writes.
static bool slot_take(const struct rondo_verify_machine *m, struct step *step) {
  struct rondo_verify_connector *recv = step->recv;
  struct rondo_verify_member *me = &m->members[step->at.rank], *sender = &m->members[recv->from];
  struct rondo_verify_slot *slot = &recv->slots[recv->head];
  step->received = slot;
  for (uint32_t i = 0; i < m->what->nranks; i++)
    me->clock[i] = me->clock[i] > slot->clock[i] ? me->clock[i] : slot->clock[i];
  bool is_kept = m->what->plans[recv->from].first_pass || slot->loop == sender->loop;
  if (slot->reference != RONDO_PLAN_NOWHERE && is_kept)
    sender->references[slot->reference].taken_at = me->clock[step->at.rank];
  recv->taken_at[recv->head] = me->clock[step->at.rank];
  if (slot->is_packets != ((step->op->primitive & RONDO_PRIM_PACKETS) != 0))
    return rondo_plan_verify_fault(m->report, step->at, "takes a message %s packets",
                                   slot->is_packets ? "of" : "as");
  if (slot->quantisation != RONDO_PRIM_QUANTISATION(step->op->primitive))
    return rondo_plan_verify_fault(
        m->report, step->at, "takes a message as quantisation %d that is quantisation %d",
        RONDO_PRIM_QUANTISATION(step->op->primitive), slot->quantisation);
  return slot->width == step->op->width ||
         rondo_plan_verify_fault(m->report, step->at, "takes %u chunks of a message of %u",
                                 step->op->width, slot->width);
}

static void slot_free(const struct rondo_verify_machine *m, struct rondo_verify_connector *recv) {
  free(recv->slots[recv->head].clock);
  recv->head = (recv->head + 1) % m->what->slots;
  recv->count--;
}

// The symbol of the step's chunk in a message.
static struct rondo_verify_symbol *slot_symbol(const struct step *step,
                                               const struct rondo_verify_slot *slot) {
  return &slot->symbols[step->index - slot->first];
}

static bool value_compute(const struct rondo_verify_machine *m, struct step *step) {
  const struct rondo_verify_symbol *local = NULL;
  bool has = false;
  step->value.from = m->value_set;
  if (step->recv != NULL)
    symbol_copy(m, &step->value, slot_symbol(step, step->received));
  else if (m->what->kind == RONDO_BARRIER)
    return true; // a signal has no value
  else if ((local = local_read(m, step)) != NULL)
    symbol_copy(m, &step->value, local);
  else
    return false;
  step->value.quantised &= step->recv != NULL;
  if ((step->op->primitive & RONDO_PRIM_REDUCE) && !local_reduce(m, step))
    return false;
  if (!(step->op->primitive & RONDO_PRIM_FINAL))
    return true;
  if (step->value.finished)
    return rondo_plan_verify_fault(m->report, step->at, "finishes a result a second time");
  uint32_t missing = value_wrong(m, &step->value, &has);
  if (missing != RONDO_PLAN_NOWHERE)
    return rondo_plan_verify_fault(m->report, step->at, "finishes a result without rank %u",
                                   missing);
  step->value.finished = true;
  return true;
}

static bool reference_has(const struct rondo_verify_machine *m,
                          const struct rondo_verify_reference *r, uint32_t place) {
  uint32_t n = m->what->plans[0].chunk_count;
  if (r->width == 1)
    return place == r->place;
  return place / n == r->place / n && (place + n - r->place) % n < r->width;
}

// True unless a peer may still read `place` by reference when this step writes there.
static bool references_check(const struct rondo_verify_machine *m, const struct step *step,
                             uint32_t place) {
  const struct rondo_verify_member *me = &m->members[step->at.rank];
  for (uint32_t i = 0; i < me->reference_count; i++) {
    const struct rondo_verify_reference *r = &me->references[i];
    if (r->loop == me->loop && reference_has(m, r, place) &&
        (r->taken_at == 0 || me->clock[r->taker] < r->taken_at))
      return rondo_plan_verify_fault(m->report, step->at,
                                     "writes what rank %u may still read by reference", r->taker);
  }
  return true;
}

// Whether what this step puts into output chunk `index` is on the way to the result: the next op of
// the loop that puts anything there adds to it, or this op or one before that one has passed it on.
static bool is_continued(const struct rondo_verify_machine *m, const struct step *step,
                         uint32_t index) {
  const struct rondo_plan *plan = &m->what->plans[step->at.rank];
  const int kept = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY | RONDO_PRIM_SEND;
  bool keeps = plan->keeps_sums || (step->op->primitive & RONDO_PRIM_RESULT);
  bool passed_on = keeps && (step->op->primitive & kept) == kept;
  struct rondo_verify_position at = m->members[step->at.rank].at;
  for (position_advance(plan, &at); at.op < plan->op_count; position_advance(plan, &at)) {
    const struct rondo_plan_op *op = &plan->ops[at.op];
    bool takes = op->primitive & RONDO_PRIM_RESULT;
    bool puts = (op->primitive & RONDO_PRIM_COPY) && !(op->primitive & RONDO_PRIM_OUT_SCRATCH);
    uint32_t begin = op->primitive & RONDO_PRIM_OUT_BASE ? 0 : chunk_of(m, plan, &at, 0);
    if ((index + plan->chunk_count - begin) % plan->chunk_count >= op->width)
      continue;
    if (puts)
      return takes || passed_on;
    passed_on |= takes;
  }
  return false;
}

// Whether the value is the result that belongs in output chunk `index`, or is on the way to it.
static bool result_check(const struct rondo_verify_machine *m, const struct step *step,
                         uint32_t index) {
  const struct rondo_verify_symbol *value = &step->value;
  uint64_t loop = m->members[step->at.rank].loop;
  if (value->loop != loop || value->chunk != output_identity(m->what, step->at.rank, index))
    return rondo_plan_verify_fault(m->report, step->at, "writes chunk %u of loop %llu there",
                                   value->chunk, (unsigned long long)value->loop);
  if (is_continued(m, step, index))
    return true;
  bool has = false;
  uint32_t wrong = value_wrong(m, value, &has);
  if (wrong != RONDO_PLAN_NOWHERE)
    return rondo_plan_verify_fault(m->report, step->at, "writes a result %s rank %u",
                                   has ? "with" : "without", wrong);
  if (rondo_plan_reduces(m->what->kind) && !value->finished)
    return rondo_plan_verify_fault(m->report, step->at, "writes a result that is not FINAL");
  return true;
}

// Whether a result of an all-reduce has the same bits as on the ranks that have it already.
static bool order_check(const struct rondo_verify_machine *m, const struct step *step) {
  const struct rondo_verify_symbol *value = &step->value;
  if (m->what->kind != RONDO_ALL_REDUCE)
    return true;
  uint64_t *order = &m->orders[value->loop * m->what->plans[0].chunk_count + value->chunk];
  if (*order == 0)
    *order = value->order;
  return *order == value->order ||
         rondo_plan_verify_fault(m->report, step->at, "adds in another order than another rank");
}

// Copies the value into scratch.
static bool scratch_write(const struct rondo_verify_machine *m, const struct step *step) {
  struct rondo_verify_place *place = scratch_at(m, step);
  if (place == NULL)
    return false;
  if (place->unread)
    return rondo_plan_verify_fault(m->report, step->at,
                                   "writes over scratch that nothing has read");
  place->written = place->unread = true;
  symbol_copy(m, &place->symbol, &step->value);
  return true;
}

// Copies the value into the receive buffer.
static bool output_write(const struct rondo_verify_machine *m, const struct step *step) {
  uint32_t rank = step->at.rank, index = output_index(step);
  if (index >= output_count(m->what, rank))
    return rondo_plan_verify_fault(m->report, step->at, "writes beyond the receive buffer");
  uint32_t to = output_place(m->what, rank, index);
  struct rondo_verify_place *place = &m->members[rank].places[to];
  // A copy onto itself moves nothing, so it disturbs no reader.
  bool onto_itself = step->recv == NULL && !rondo_plan_reduces(m->what->kind) &&
                     !(step->op->primitive & RONDO_PRIM_IN_SCRATCH) &&
                     input_place(m->what, rank, input_index(step)) == to;
  if (!result_check(m, step, index))
    return false;
  if (!onto_itself && !references_check(m, step, to))
    return false;
  if (place->written)
    return rondo_plan_verify_fault(m->report, step->at, "writes its result a second time");
  place->begun = is_continued(m, step, index);
  place->written = !place->begun;
  symbol_copy(m, &place->symbol, &step->value);
  return place->begun || order_check(m, step);
}

// The first place whose address a send of this op may pass, or NOWHERE: what was copied lies in
// the receive buffer, what was neither received nor copied in the send buffer. Scratch is copied.
static uint32_t reference_place(const struct rondo_plan_verify_case *what,
                                const struct step *step) {
  if (what->kind == RONDO_BARRIER || what->plans[step->at.rank].by_value ||
      (step->op->primitive & RONDO_PRIM_SCRATCH))
    return RONDO_PLAN_NOWHERE;
  if (step->op->primitive & (RONDO_PRIM_COPY | RONDO_PRIM_RESULT))
    return output_place(what, step->at.rank, output_index(step));
  if (!(step->op->primitive & RONDO_PRIM_RECV))
    return input_place(what, step->at.rank, input_index(step));
  return RONDO_PLAN_NOWHERE;
}

// Adds a message, whose symbols are then written. Returns false if there is no memory.
static bool slot_put(const struct rondo_verify_machine *m, struct step *step, uint32_t first,
                     uint32_t count) {
  struct rondo_verify_connector *send = step->send;
  struct rondo_verify_member *me = &m->members[step->at.rank];
  uint32_t tail = (send->head + send->count) % m->what->slots;
  struct rondo_verify_slot *slot = &send->slots[tail];
  // Not kept for unused slots: large groups have many, and long clocks.
  size_t clock_bytes = (m->what->nranks + 1) / 2 * sizeof(uint64_t);
  size_t symbol_bytes = sizeof(struct rondo_verify_symbol) + m->set_words * sizeof(uint64_t);
  slot->clock = malloc(clock_bytes + count * symbol_bytes);
  if (slot->clock == NULL)
    return false;
  memcpy(slot->clock, me->clock, m->what->nranks * sizeof(*me->clock));
  slot->symbols = (struct rondo_verify_symbol *)(void *)((char *)slot->clock + clock_bytes);
  for (uint32_t i = 0; i < count; i++)
    slot->symbols[i].from = (uint64_t *)(slot->symbols + count) + i * (size_t)m->set_words;
  slot->width = step->op->width;
  slot->quantisation = RONDO_PRIM_QUANTISATION(step->op->primitive);
  slot->is_packets = step->op->primitive & RONDO_PRIM_PACKETS;
  slot->first = first;
  slot->count = count;
  slot->loop = me->loop;
  slot->reference = RONDO_PLAN_NOWHERE;
  send->count++;
  step->sent = slot;
  return true;
}

// The message passes the address of its chunks, where it may.
static void slot_refer(const struct rondo_verify_machine *m, struct step *step) {
  struct rondo_verify_member *me = &m->members[step->at.rank];
  step->at.chunk = chunk_of(m, &m->what->plans[step->at.rank], &me->at, step->sent->first);
  uint32_t place = reference_place(m->what, step);
  if (place == RONDO_PLAN_NOWHERE || step->sent->count == 0)
    return;
  step->sent->reference = me->reference_count++;
  me->references[step->sent->reference] =
      (struct rondo_verify_reference){me->loop, place, step->sent->count, step->send->to, 0};
}

// --------------------------------------------------------------------- ranks ---

// A barrier: the rank has heard from all that they have begun the loop that it has just done.
static bool barrier_check(const struct rondo_verify_machine *m, uint32_t rank) {
  const struct rondo_verify_member *me = &m->members[rank];
  struct rondo_plan_where at = {rank, RONDO_PLAN_NOWHERE, RONDO_PLAN_NOWHERE};
  for (uint32_t other = 0; other < m->what->nranks; other++) {
    const struct rondo_plan *plan = &m->what->plans[other];
    uint64_t a_loop = 0;
    for (uint32_t i = 0; i < plan->op_count; i++)
      a_loop += plan->ops[i].repeat; // there are no rounds
    if (me->clock[other] <= me->loop * a_loop)
      return rondo_plan_verify_fault(m->report, at, "ends without having heard of rank %u", other);
  }
  return true;
}

// In the loop that a rank has just done, something used each chunk of its scratch, which would cost
// memory for nothing, and read the last that was written there.
static bool scratch_check(const struct rondo_verify_machine *m, uint32_t rank) {
  const struct rondo_plan *plan = &m->what->plans[rank];
  for (uint32_t i = 0; i < plan->scratch_count; i++) {
    uint32_t number = (plan->scratch_first + i) % plan->chunk_count;
    struct rondo_plan_where at = {rank, RONDO_PLAN_NOWHERE, chunk_place(m, plan, number)};
    if (!is_followed(m->what, at.chunk))
      continue;
    const struct rondo_verify_place *place =
        &m->members[rank].places[scratch_place(m->what) + (m->what->one_chunk ? 0 : i)];
    if (!place->written || place->unread)
      return rondo_plan_verify_fault(m->report, at, "no op %s this chunk of the scratch",
                                     place->written ? "reads" : "writes");
  }
  return true;
}

// All results of the loop that a rank has just done, in its last pass, are written.
static bool loop_check(const struct rondo_verify_machine *m, uint32_t rank) {
  if (m->what->kind == RONDO_BARRIER)
    return barrier_check(m, rank);
  if (!scratch_check(m, rank))
    return false;
  for (uint32_t i = 0; i < output_count(m->what, rank); i++) {
    struct rondo_plan_where at = {rank, RONDO_PLAN_NOWHERE, i};
    if ((is_exchange(m->what) && m->members[rank].loop >= pair_loops(m->what, i, rank)) ||
        !is_followed(m->what, output_identity(m->what, rank, i)))
      continue;
    if (!m->members[rank].places[output_place(m->what, rank, i)].written)
      return rondo_plan_verify_fault(m->report, at, "no op writes this result");
  }
  return true;
}

// Goes on to the next execution of the plan; false with a report at a faulty end of a loop.
static bool member_advance(const struct rondo_verify_machine *m, uint32_t rank) {
  struct rondo_verify_member *me = &m->members[rank];
  const struct rondo_plan *plan = &m->what->plans[rank];
  uint32_t op = me->at.op;
  position_advance(plan, &me->at);
  bool is_first = me->at.op == plan->first_pass && op + 1 == plan->first_pass;
  if (!is_first && me->at.op < plan->op_count)
    return true;
  if (!is_first && !loop_check(m, rank))
    return false;
  me->at.op = is_first ? 0 : plan->first_pass;
  me->loop++;
  if (is_first && me->loop == m->what->loops) {
    me->at.op = plan->first_pass;
    me->loop = 0;
  }
  if (me->at.op < plan->first_pass || !plan->first_pass)
    buffers_reset(m, rank);
  else
    buffers_find(m, rank);
  return true;
}

// The next execution of a rank that has not ended.
static struct step member_next(const struct rondo_verify_machine *m, uint32_t rank) {
  const struct rondo_verify_member *me = &m->members[rank];
  const struct rondo_plan_op *op = &m->what->plans[rank].ops[me->at.op];
  struct step step = {.op = op};
  step.at.rank = rank;
  step.at.op = me->at.op;
  step.at.chunk = chunk_of(m, &m->what->plans[rank], &me->at, 0);
  uint32_t peer = me->at.repeat * op->peer_stride;
  step.send = op->primitive & RONDO_PRIM_SEND ? me->send[op->send_peer + peer] : NULL;
  step.recv = op->primitive & RONDO_PRIM_RECV ? me->recv[op->recv_peer + peer] : NULL;
  return step;
}

// Whether the step is one for a chunk that its pair of ranks does not have in this loop.
static bool step_is_absent(const struct rondo_verify_machine *m, const struct step *step) {
  uint32_t rank = step->at.rank;
  uint32_t from = step->recv != NULL ? step->recv->from : rank;
  uint32_t to = step->send != NULL ? step->send->to : rank;
  return m->what->pair_loops && m->members[rank].loop >= pair_loops(m->what, from, to);
}

// Whether a chunk that is only passed on is the one of the op, which says how many elements it has.
static bool passed_check(const struct rondo_verify_machine *m, const struct step *step) {
  const unsigned moves = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY;
  if ((step->op->primitive & moves) != RONDO_PRIM_RECV || is_exchange(m->what) ||
      m->what->kind == RONDO_BARRIER || step->value.chunk == step->at.chunk)
    return true;
  return rondo_plan_verify_fault(m->report, step->at, "passes on chunk %u", step->value.chunk);
}

// Quantises a value that is sent and was computed here.
static void value_quantise(struct step *step) {
  if (step->send == NULL || !(step->op->primitive & RONDO_PRIM_QUANTISED) || step->value.quantised)
    return;
  step->value.order = order_of_quantising(step->value.order);
  step->value.quantised = true;
}

// Executes the op for the chunk of the step.
static bool chunk_step(const struct rondo_verify_machine *m, struct step *step) {
  if (!value_compute(m, step) || !passed_check(m, step))
    return false;
  value_quantise(step);
  bool to_scratch = step->op->primitive & RONDO_PRIM_OUT_SCRATCH;
  if ((step->op->primitive & RONDO_PRIM_COPY) &&
      !(to_scratch ? scratch_write(m, step) : output_write(m, step)))
    return false;
  if (step->sent != NULL)
    symbol_copy(m, slot_symbol(step, step->sent), &step->value);
  return true;
}

// Which chunks of the execution are followed: `count` of them, from `first` on.
static void followed_find(const struct rondo_verify_machine *m, const struct step *step,
                          uint32_t *first, uint32_t *count) {
  const struct rondo_plan *plan = &m->what->plans[step->at.rank];
  const int base = RONDO_PRIM_IN_BASE | RONDO_PRIM_OUT_BASE;
  uint32_t n = plan->chunk_count, begin = step->at.chunk;
  *first = 0;
  *count = step->op->width;
  if (!m->what->one_chunk)
    return;
  if (step->op->primitive & base)
    begin = step->at.rank;
  *first = (m->what->one_chunk - 1 + n - begin) % n;
  *count = *first < step->op->width;
}

// Executes the op for its chunks. Chunks that are not followed change nothing.
static enum rondo_verify_result chunks_step(const struct rondo_verify_machine *m,
                                            struct step *step) {
  const struct rondo_plan *plan = &m->what->plans[step->at.rank];
  uint32_t first, count;
  followed_find(m, step, &first, &count);
  if (step->recv != NULL && !slot_take(m, step))
    return RONDO_VERIFY_FAULT;
  if (step->recv != NULL &&
      (step->received->count != count || (count > 0 && step->received->first != first))) {
    (void)rondo_plan_verify_fault(m->report, step->at, "takes other chunks than were sent");
    return RONDO_VERIFY_FAULT;
  }
  if (step->send != NULL && !slot_put(m, step, first, count))
    return RONDO_VERIFY_NO_MEMORY;
  for (step->index = first; step->index < first + count; step->index++) {
    step->number = chunk_number(plan, &m->members[step->at.rank].at, step->index);
    step->at.chunk = chunk_place(m, plan, step->number);
    if (!chunk_step(m, step))
      return RONDO_VERIFY_FAULT;
  }
  if (step->send != NULL)
    slot_refer(m, step);
  if (step->recv != NULL)
    slot_free(m, step->recv);
  return RONDO_VERIFY_DONE;
}

// Packets are sent without a credit. Whether the sender knows, in every interleaving, that the
// message which was in the slot before has been taken.
static bool packets_check(const struct rondo_verify_machine *m, const struct step *step) {
  const struct rondo_verify_connector *send = step->send;
  if (send == NULL || !(step->op->primitive & RONDO_PRIM_PACKETS))
    return true;
  uint32_t taken_at = send->taken_at[(send->head + send->count) % m->what->slots];
  bool is_free = send->count < m->what->slots;
  if (is_free && taken_at <= m->members[step->at.rank].clock[send->to])
    return true;
  return rondo_plan_verify_fault(m->report, step->at,
                                 "writes over packets that rank %u may not have taken", send->to);
}

enum rondo_verify_result rondo_verify_member_step(const struct rondo_verify_machine *m,
                                                  uint32_t rank) {
  struct rondo_verify_member *me = &m->members[rank];
  if (me->loop == member_loops(m->what, rank) || m->what->plans[rank].op_count == 0)
    return RONDO_VERIFY_ENDED;
  struct step step = member_next(m, rank);
  if (step_is_absent(m, &step))
    return member_advance(m, rank) ? RONDO_VERIFY_DONE : RONDO_VERIFY_FAULT;
  assert(me->clock != NULL); // no machine runs whose members were not all made
  if (!packets_check(m, &step))
    return RONDO_VERIFY_FAULT;
  if ((step.recv != NULL && step.recv->count == 0) ||
      (step.send != NULL && step.send->count == m->what->slots))
    return RONDO_VERIFY_BLOCKED;
  me->clock[rank]++;
  enum rondo_verify_result result = chunks_step(m, &step);
  if (result != RONDO_VERIFY_DONE)
    return result;
  return member_advance(m, rank) ? RONDO_VERIFY_DONE : RONDO_VERIFY_FAULT;
}

bool rondo_verify_member_end_check(const struct rondo_verify_machine *m, uint32_t rank) {
  if (m->members[rank].loop == member_loops(m->what, rank))
    return true;
  struct step step = member_next(m, rank);
  bool dry = step.recv != NULL && step.recv->count == 0;
  assert(dry || step.send != NULL); // else nothing stops it from stepping
  return rondo_plan_verify_fault(m->report, step.at, "deadlock: waits for %s rank %u for ever",
                                 dry ? "a chunk from" : "room to",
                                 dry ? step.recv->from : step.send->to);
}

bool rondo_verify_member_init(struct rondo_verify_machine *m, uint32_t rank) {
  const struct rondo_plan *plan = &m->what->plans[rank];
  struct rondo_verify_member *me = &m->members[rank];
  size_t sends = 1, loops = kept_loops(m->what, rank), places = loops * place_count(m->what, rank);
  for (uint32_t i = 0; i < plan->op_count; i++)
    if (plan->ops[i].primitive & RONDO_PRIM_SEND)
      sends += (size_t)plan->ops[i].repeat * rondo_plan_rounds(plan, i);
  me->references = calloc(sends * loops, sizeof(*me->references));
  me->all_places = calloc(places, sizeof(*me->places));
  me->all_sets = calloc(places * m->set_words, sizeof(*me->sets));
  me->clock = calloc(m->what->nranks, sizeof(*me->clock));
  me->send = calloc(plan->send.count + 1, sizeof(struct rondo_verify_connector *));
  me->recv = calloc(plan->recv.count + 1, sizeof(struct rondo_verify_connector *));
  if (me->references == NULL || me->all_places == NULL || me->all_sets == NULL ||
      me->clock == NULL || me->send == NULL || me->recv == NULL)
    return false;
  buffers_reset(m, rank);
  return true;
}

void rondo_verify_member_fini(struct rondo_verify_member *me) {
  free(me->references);
  free(me->all_places);
  free(me->all_sets);
  free(me->clock);
  free(me->send);
  free(me->recv);
}
