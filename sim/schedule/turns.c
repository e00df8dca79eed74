#include "sim/schedule/turns.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/text_file.h"
#include "daemon/core/block_core.h"
#include "daemon/plan/build.h"
#include "sim/schedule/machine_state.h"
#include "sim/schedule/program.h"
#include <rondo/rondo.h>

#define MOST_TURNS 4000000u
#define MOST_STEPS 64u // of a turn
#define MOST_BYTES (UINT64_C(1) << 30)
#define MOST_NS (UINT64_C(1) << 62)

static const char *const count_names[RONDO_SCHEDULE_TURN_COUNTS] = {
    "fetched runs", "primitives", "preemptions", "context loads", "saves", "quits", "ended runs"};
static const char *const place_names[RONDO_SCHEDULE_TURN_PLACES] = {
    "place in the task queue", "run of the scheduled collective", "phase", "op", "repeat"};

// ----------------------------------------------------------------------- read ---

struct reader {
  struct rondo_schedule_turns *t;
  const char *name;
  char where[64]; // "turn 12"
  struct rondo_sim_error *error;
};

// Reads a whole number of an object. Refuses it if it is missing, or not in the bounds.
static bool number_read(struct reader *r, const json_t *object, const char *key, uint64_t most,
                        uint64_t *value) {
  const json_t *found = json_object_get(object, key);
  json_int_t n = json_integer_value(found);
  *value = (uint64_t)n;
  return (json_is_integer(found) && n >= 0 && (uint64_t)n <= most) ||
         rondo_sim_refuse(r->error, "%.200s: %s: \"%s\" is no whole number from 0 to %" PRIu64,
                          r->name, r->where, key, most);
}

static bool small_read(struct reader *r, const json_t *object, const char *key, uint32_t most,
                       uint32_t *value) {
  uint64_t number;
  bool ok = number_read(r, object, key, most, &number);
  *value = (uint32_t)number;
  return ok;
}

// How many numbers a list has, and what they are below.
struct bounds {
  uint32_t least, most;
  uint64_t below;
};

// Reads a list of whole numbers.
static bool list_read(struct reader *r, const json_t *object, const char *key, struct bounds b,
                      uint64_t *values, uint32_t *count) {
  const json_t *list = json_object_get(object, key);
  size_t size = json_array_size(list);
  bool ok = json_is_array(list) && size >= b.least && size <= b.most;
  for (size_t i = 0; ok && i < size; i++) {
    json_int_t n = json_integer_value(json_array_get(list, i));
    ok = json_is_integer(json_array_get(list, i)) && n >= 0 && (uint64_t)n < b.below;
    values[i] = (uint64_t)n;
  }
  *count = (uint32_t)size;
  return ok || rondo_sim_refuse(r->error,
                                "%.200s: %s: \"%s\" is no list of %u to %u numbers "
                                "below %" PRIu64,
                                r->name, r->where, key, b.least, b.most, b.below);
}

static bool settings_read(struct reader *r, const json_t *root) {
  struct rondo_schedule_settings *s = &r->t->settings;
  uint32_t budget = 0;
  *s = (struct rondo_schedule_settings){.interfaces = 1, .iterations = 1, .is_at_once = true};
  bool ok = small_read(r, root, "ranks", RONDO_SCHEDULE_TURN_RANKS, &s->rank_count) &&
            small_read(r, root, "active_slots", RONDO_ACTIVE_SLOTS, &r->t->active_slots) &&
            small_read(r, root, "budget", RONDO_BUDGET_NEVER, &budget) &&
            small_read(r, root, "success_factor", UINT32_MAX, &s->policy.success_factor) &&
            number_read(r, root, "front_budget_ns", MOST_NS, &s->policy.front_budget_ns) &&
            number_read(r, root, "min_budget_ns", MOST_NS, &s->policy.min_budget_ns) &&
            number_read(r, root, "max_budget_ns", MOST_NS, &s->policy.max_budget_ns) &&
            number_read(r, root, "look_ns", MOST_NS, &s->policy.look_ns) &&
            number_read(r, root, "quit_period_ns", MOST_NS, &s->quit_period_ns) &&
            number_read(r, root, "residency_ns", MOST_NS, &s->residency_ns);
  s->policy.budget = (uint8_t)budget;
  s->machine_ranks = s->rank_count;
  return ok && ((s->rank_count > 0 && r->t->active_slots > 0) ||
                rondo_sim_refuse(r->error, "%.200s: it has no ranks, or no active slots", r->name));
}

// The ranks of a collective, each once.
static bool members_read(struct reader *r, const json_t *from, uint32_t *count) {
  uint64_t members[RONDO_SCHEDULE_TURN_RANKS] = {0};
  uint32_t n = r->t->settings.rank_count;
  if (!list_read(r, from, "ranks", (struct bounds){1, n, n}, members, count)) {
    return false;
  }
  uint32_t *ranks = rondo_sim_alloc(*count * sizeof *ranks);
  uint64_t seen = 0;
  r->t->ranks[r->t->collective_count] = ranks;
  for (uint32_t i = 0; i < *count; i++) {
    ranks[i] = (uint32_t)members[i];
    seen |= UINT64_C(1) << ranks[i];
  }
  return (uint32_t)__builtin_popcountll(seen) == *count ||
         rondo_sim_refuse(r->error, "%.200s: %s: a rank is in it twice", r->name, r->where);
}

static bool collective_read(struct reader *r, const json_t *from, uint32_t slot_bytes) {
  struct rondo_schedule_shape shape = {.slot_bytes = slot_bytes};
  const char *kind = json_string_value(json_object_get(from, "kind"));
  const char *algorithm = json_string_value(json_object_get(from, "algorithm"));
  if (!kind || !rondo_schedule_kind_read(kind, &shape.kind) || shape.kind == RONDO_ALL_TO_ALL_V ||
      !algorithm || !rondo_schedule_algorithm_read(algorithm, shape.kind, &shape.algorithm)) {
    return rondo_sim_refuse(r->error, "%.200s: %s: its kind or its algorithm is unknown", r->name,
                            r->where);
  }
  if (!number_read(r, from, "bytes", MOST_BYTES, &shape.bytes) ||
      !small_read(r, from, "slots", 64, &shape.slot_count) ||
      !members_read(r, from, &shape.nranks) ||
      !small_read(r, from, "root", shape.nranks - 1, &shape.root)) {
    return false;
  }
  if (shape.slot_count == 0 || (shape.slot_count & (shape.slot_count - 1))) {
    return rondo_sim_refuse(r->error, "%.200s: %s: slots must be a power of two", r->name,
                            r->where);
  }
  r->t->layouts[r->t->collective_count] = rondo_schedule_layout_create(&shape, r->error);
  return r->t->layouts[r->t->collective_count] != NULL;
}

static bool collectives_read(struct reader *r, const json_t *root) {
  const json_t *list = json_object_get(root, "collectives");
  uint32_t slot_bytes;
  size_t count = json_array_size(list);
  if (!small_read(r, root, "slot_bytes", 1u << 30, &slot_bytes)) {
    return false;
  }
  if (count < 1 || count > RONDO_SCHEDULE_TURN_COLLECTIVES || slot_bytes < 64) {
    return rondo_sim_refuse(r->error, "%.200s: needs 1 to %u collectives, and slots of 64 bytes",
                            r->name, RONDO_SCHEDULE_TURN_COLLECTIVES);
  }
  for (size_t i = 0; i < count; i++) {
    snprintf(r->where, sizeof r->where, "collective %zu", i);
    bool ok = collective_read(r, json_array_get(list, i), slot_bytes);
    r->t->collective_count++;
    if (!ok) {
      return false;
    }
  }
  return true;
}

// Reads a list of collectives into `words`.
static bool words_read(struct reader *r, const json_t *from, const char *key, uint32_t *first,
                       uint32_t *count) {
  uint64_t values[RONDO_SCHEDULE_TURN_WORDS] = {0};
  const struct bounds b = {0, RONDO_SCHEDULE_TURN_WORDS, r->t->collective_count};
  if (!list_read(r, from, key, b, values, count)) {
    return false;
  }
  *first = r->t->word_count;
  for (uint32_t i = 0; i < *count; i++) {
    RONDO_SIM_GROW(r->t->words, r->t->word_count, r->t->word_capacity, 1024);
    r->t->words[r->t->word_count++] = (uint32_t)values[i];
  }
  return true;
}

static bool is_member(const struct rondo_schedule_turns *t, uint32_t collective, uint32_t rank) {
  for (uint32_t i = 0; i < t->layouts[collective]->shape.nranks; i++) {
    if (t->ranks[collective][i] == rank) {
      return true;
    }
  }
  return false;
}

static bool given_check(struct reader *r, const struct rondo_schedule_turn *turn) {
  for (uint32_t i = 0; i < turn->given_count; i++) {
    uint32_t collective = r->t->words[turn->given + i];
    if (!is_member(r->t, collective, turn->rank)) {
      return rondo_sim_refuse(r->error, "%.200s: %s: rank %u is not in collective %u", r->name,
                              r->where, turn->rank, collective);
    }
  }
  return true;
}

static bool turn_read(struct reader *r, const json_t *from, struct rondo_schedule_turn *turn) {
  const struct bounds all = {RONDO_SCHEDULE_TURN_COUNTS, RONDO_SCHEDULE_TURN_COUNTS, MOST_NS};
  uint32_t looks = 0, count = 0;
  bool ok = small_read(r, from, "rank", r->t->settings.rank_count - 1, &turn->rank) &&
            number_read(r, from, "now_ns", MOST_NS, &turn->taken.now_ns) &&
            small_read(r, from, "looks", 1, &looks) &&
            small_read(r, from, "steps", MOST_STEPS, &turn->taken.steps) &&
            small_read(r, from, "resident", 1, &turn->resident) &&
            list_read(r, from, "counts", all, turn->counts, &count) &&
            words_read(r, from, "given", &turn->given, &turn->given_count) &&
            words_read(r, from, "queue", &turn->queue, &turn->queue_count) && given_check(r, turn);
  uint32_t places = turn->queue_count ? RONDO_SCHEDULE_TURN_PLACES : 0;
  turn->taken.looks = looks;
  turn->taken.runs = turn->given_count;
  return ok &&
         list_read(r, from, "at", (struct bounds){places, places, MOST_NS}, turn->place, &count);
}

static bool turns_read(struct reader *r, const json_t *root) {
  const json_t *list = json_object_get(root, "turns");
  size_t count = json_array_size(list);
  if (count < 1 || count > MOST_TURNS) {
    return rondo_sim_refuse(r->error, "%.200s: has no turns, or more than %u", r->name, MOST_TURNS);
  }
  r->t->items = rondo_sim_calloc(count, sizeof *r->t->items);
  r->t->count = (uint32_t)count;
  for (uint32_t i = 0; i < count; i++) {
    snprintf(r->where, sizeof r->where, "turn %u", i + 1);
    if (!turn_read(r, json_array_get(list, i), &r->t->items[i])) {
      return false;
    }
  }
  return true;
}

static bool turns_parse(struct reader *r, json_t *root, const json_error_t *why) {
  if (!root && why->line < 0) {
    return rondo_sim_refuse(r->error, "%.200s", why->text);
  }
  if (!root) {
    return rondo_sim_refuse(r->error, "%.200s:%d: it is no JSON", r->name, why->line);
  }
  const char *schema = json_string_value(json_object_get(root, "schema"));
  bool ok = (schema && strcmp(schema, "rondo-turns-1") == 0) ||
            rondo_sim_refuse(r->error, "%.200s: it has no turns of the explorer", r->name);
  snprintf(r->where, sizeof r->where, "the program");
  ok = ok && settings_read(r, root) && collectives_read(r, root) && turns_read(r, root);
  json_decref(root);
  return ok;
}

bool rondo_schedule_turns_parse(struct rondo_schedule_turns *t, const char *text, size_t bytes,
                                const char *name, struct rondo_sim_error *error) {
  json_error_t why;
  struct reader r = {.t = t, .name = name, .error = error};
  *t = (struct rondo_schedule_turns){0};
  return turns_parse(&r, json_loadb(text, bytes, 0, &why), &why);
}

bool rondo_schedule_turns_read(struct rondo_schedule_turns *t, const char *path,
                               struct rondo_sim_error *error) {
  json_error_t why;
  struct reader r = {.t = t, .name = path, .error = error};
  *t = (struct rondo_schedule_turns){0};
  return turns_parse(&r, json_load_file(path, 0, &why), &why);
}

void rondo_schedule_turns_fini(struct rondo_schedule_turns *t) {
  for (uint32_t i = 0; i < t->collective_count; i++) {
    rondo_schedule_layout_destroy(t->layouts[i]);
    free(t->ranks[i]);
  }
  free(t->items);
  free(t->words);
}

// -------------------------------------------------------------------- machine ---

// The machine, and which of the recorded collectives each of its collectives is.
struct player {
  const struct rondo_schedule_turns *t;
  struct rondo_schedule_machine *m;
  struct rondo_schedule_layout *filler;
  uint32_t ranks[RONDO_SCHEDULE_TURN_RANKS];        // each by itself
  uint32_t number[RONDO_SCHEDULE_TURN_COLLECTIVES]; // in the machine
  uint32_t *recorded;                               // by number there
  uint32_t count;
};

static void machine_collective_add(struct player *p, const struct rondo_schedule_layout *layout,
                                   const uint32_t *ranks, uint32_t recorded) {
  rondo_schedule_machine_add(p->m,
                             &(struct rondo_schedule_collective){.layout = layout, .ranks = ranks});
  p->recorded = rondo_sim_realloc(p->recorded, (p->count + (size_t)1) * sizeof *p->recorded);
  p->recorded[p->count++] = recorded;
}

// Collectives whose places in a block's table differ by the number of active slots push each other
// out. Where the explorer's blocks have fewer slots, collectives that nobody calls fill the table
// so that the same ones meet.
static void collectives_add(struct player *p) {
  uint32_t slots = p->t->active_slots, own[RONDO_SCHEDULE_TURN_RANKS] = {0};
  for (uint32_t c = 0; c < p->t->collective_count; c++) {
    for (uint32_t i = 0; i < p->t->layouts[c]->shape.nranks; i++) {
      uint32_t rank = p->t->ranks[c][i];
      bool is_next_lap = own[rank] && own[rank] % slots == 0;
      for (uint32_t k = slots; is_next_lap && k < RONDO_ACTIVE_SLOTS; k++) {
        machine_collective_add(p, p->filler, &p->ranks[rank], UINT32_MAX);
      }
      own[rank]++;
    }
    p->number[c] = p->count;
    machine_collective_add(p, p->t->layouts[c], p->t->ranks[c], c);
  }
}

static void calls_add(struct player *p) {
  for (uint32_t rank = 0; rank < p->t->settings.rank_count; rank++) {
    for (uint32_t i = 0; i < p->t->count; i++) {
      const struct rondo_schedule_turn *turn = &p->t->items[i];
      for (uint32_t k = 0; turn->rank == rank && k < turn->given_count; k++) {
        rondo_schedule_machine_call(
            p->m, rank,
            &(struct rondo_schedule_call){.collective = p->number[p->t->words[turn->given + k]]});
      }
    }
  }
}

// The gates of all collectives have opened there, which sets their ready flags. All flags are in
// one word there, which is taken as a whole; here collectives that fill the table are in between.
static void flags_set(struct player *p) {
  for (uint32_t rank = 0; rank < p->t->settings.rank_count; rank++) {
    struct rondo_schedule_rank *r = &p->m->ranks[rank];
    r->block.flag_end = r->member_count;
    for (uint32_t i = 0; p->recorded && i < r->member_count; i++) {
      if (p->recorded[rondo_schedule_member_of(p->m, r, i)->collective] != UINT32_MAX) {
        ((uint8_t *)(uintptr_t)r->block.flags)[i] = 1;
        r->flag_words |= UINT64_C(1) << i / 8 % 64;
      }
    }
  }
}

static void player_init(struct player *p, const struct rondo_schedule_turns *t) {
  struct rondo_sim_error error;
  const struct rondo_schedule_shape barrier = {.kind = RONDO_BARRIER,
                                               .algorithm = RONDO_ALGORITHM_DISSEMINATION,
                                               .nranks = 1,
                                               .slot_bytes = 64};
  *p = (struct player){.t = t, .m = rondo_schedule_machine_create(&t->settings)};
  p->filler = rondo_schedule_layout_create(&barrier, &error);
  for (uint32_t i = 0; i < t->settings.rank_count; i++) {
    p->ranks[i] = i;
  }
  collectives_add(p);
  calls_add(p);
  (void)rondo_schedule_machine_run(p->m, 0);
  flags_set(p);
}

static void player_fini(struct player *p) {
  rondo_schedule_machine_destroy(p->m);
  rondo_schedule_layout_destroy(p->filler);
  free(p->recorded);
}

// -------------------------------------------------------------------- compare ---

static void counts_take(const struct rondo_block_counters *c,
                        uint64_t counts[RONDO_SCHEDULE_TURN_COUNTS]) {
  const uint64_t taken[RONDO_SCHEDULE_TURN_COUNTS] = {
      c->fetched,       c->primitives, c->preemptions, c->context_loads,
      c->context_saves, c->quits,      c->ended};
  memcpy(counts, taken, sizeof taken);
}

// Which recorded collective the place of the rank's queue has.
static uint32_t queued_at(const struct player *p, const struct rondo_schedule_rank *r,
                          uint32_t place) {
  uint32_t index = rondo_task_index(rondo_task_entries(&r->block.queue)[place]);
  return p->recorded[rondo_schedule_member_of(p->m, r, index)->collective];
}

static bool is_equal(struct rondo_sim_text *why, const char *what, uint64_t recorded,
                     uint64_t replayed) {
  if (recorded != replayed) {
    rondo_sim_text_add(why, "%s: recorded %" PRIu64 ", replayed %" PRIu64 "\n", what, recorded,
                       replayed);
  }
  return recorded == replayed;
}

static bool queue_is_equal(const struct player *p, const struct rondo_schedule_turn *turn,
                           struct rondo_sim_text *why) {
  const struct rondo_schedule_rank *r = &p->m->ranks[turn->rank];
  const struct rondo_block *b = &r->block;
  if (!is_equal(why, "length of the task queue", turn->queue_count, b->queue.count)) {
    return false;
  }
  for (uint32_t i = 0; i < b->queue.count; i++) {
    if (!is_equal(why, "collective in the task queue", p->t->words[turn->queue + i],
                  queued_at(p, r, i))) {
      return false;
    }
  }
  if (b->queue.count == 0) {
    return true;
  }
  const struct rondo_context_dynamic *s =
      &rondo_block_context(b, rondo_task_index(rondo_task_queue_current(&b->queue)))->state;
  const uint64_t place[RONDO_SCHEDULE_TURN_PLACES] = {b->queue.cursor, s->run.number, s->phase,
                                                      s->op, s->repeat};
  for (uint32_t i = 0; i < RONDO_SCHEDULE_TURN_PLACES; i++) {
    if (!is_equal(why, place_names[i], turn->place[i], place[i])) {
      return false;
    }
  }
  return true;
}

// Takes a turn and compares what has come of it.
static bool turn_play(const struct player *p, const struct rondo_schedule_turn *turn,
                      struct rondo_sim_text *why) {
  const struct rondo_block_counters *counters = &p->m->ranks[turn->rank].block.counters;
  uint64_t before[RONDO_SCHEDULE_TURN_COUNTS], after[RONDO_SCHEDULE_TURN_COUNTS];
  counts_take(counters, before);
  rondo_schedule_machine_turn(p->m, turn->rank, &turn->taken);
  counts_take(counters, after);
  for (uint32_t i = 0; i < RONDO_SCHEDULE_TURN_COUNTS; i++) {
    if (!is_equal(why, count_names[i], turn->counts[i], after[i] - before[i])) {
      return false;
    }
  }
  return queue_is_equal(p, turn, why) &&
         is_equal(why, "resident blocks", turn->resident, p->m->ranks[turn->rank].block.resident);
}

bool rondo_schedule_turns_play(const struct rondo_schedule_turns *t,
                               struct rondo_sim_text *difference) {
  struct player p;
  struct rondo_sim_text why = {0};
  bool ok = true;
  player_init(&p, t);
  for (uint32_t i = 0; ok && i < t->count; i++) {
    ok = turn_play(&p, &t->items[i], &why);
    if (!ok) {
      rondo_sim_text_add(difference, "turn %u of %u, at %" PRIu64 " ns, of rank %u: %s", i + 1,
                         t->count, t->items[i].taken.now_ns, t->items[i].rank,
                         rondo_sim_text_str(&why));
    }
  }
  rondo_sim_text_fini(&why);
  player_fini(&p);
  return ok;
}

void rondo_schedule_turns_report(struct rondo_sim_text *text,
                                 const struct rondo_schedule_turns *t) {
  uint64_t sums[RONDO_SCHEDULE_TURN_COUNTS] = {0}, steps = 0;
  for (uint32_t i = 0; i < t->count; i++) {
    steps += t->items[i].taken.steps;
    for (uint32_t k = 0; k < RONDO_SCHEDULE_TURN_COUNTS; k++) {
      sums[k] += t->items[i].counts[k];
    }
  }
  rondo_sim_text_add(text, "%u ranks, %u collectives, %u turns of %" PRIu64 " steps: ",
                     t->settings.rank_count, t->collective_count, t->count, steps);
  for (uint32_t k = 0; k < RONDO_SCHEDULE_TURN_COUNTS; k++) {
    rondo_sim_text_add(text, "%s%" PRIu64 " %s", k ? ", " : "", sums[k], count_names[k]);
  }
  rondo_sim_text_add(text, "\n");
}
