#include "sim/analyse/flight.h"

#include <stdlib.h>
#include <string.h>

#include "sim/analyse/json.h"
#include "sim/common/text.h"

static const struct {
  const char *key;
  enum rondo_analyse_flight_field field;
} fields[] = {
    {"collective_seq_id", RONDO_ANALYSE_FIELD_SEQ},
    {"duration_ms", RONDO_ANALYSE_FIELD_NONE},
    {"frames", RONDO_ANALYSE_FIELD_FRAMES},
    {"input_dtypes", RONDO_ANALYSE_FIELD_IN_DTYPES},
    {"input_sizes", RONDO_ANALYSE_FIELD_IN_SIZES},
    {"is_p2p", RONDO_ANALYSE_FIELD_IS_P2P},
    {"op_id", RONDO_ANALYSE_FIELD_NONE},
    {"output_dtypes", RONDO_ANALYSE_FIELD_NONE},
    {"output_sizes", RONDO_ANALYSE_FIELD_OUT_SIZES},
    {"p2p_seq_id", RONDO_ANALYSE_FIELD_P2P_SEQ},
    {"pg_id", RONDO_ANALYSE_FIELD_PG_ID},
    {"process_group", RONDO_ANALYSE_FIELD_PROCESS_GROUP},
    {"profiling_name", RONDO_ANALYSE_FIELD_NAME},
    {"record_id", RONDO_ANALYSE_FIELD_RECORD_ID},
    {"retired", RONDO_ANALYSE_FIELD_RETIRED},
    {"state", RONDO_ANALYSE_FIELD_STATE},
    {"thread_id", RONDO_ANALYSE_FIELD_THREAD_ID},
    {"thread_name", RONDO_ANALYSE_FIELD_NONE},
    {"time_created_ns", RONDO_ANALYSE_FIELD_CREATED},
    {"time_discovered_completed_ns", RONDO_ANALYSE_FIELD_COMPLETED},
    {"time_discovered_started_ns", RONDO_ANALYSE_FIELD_STARTED},
    {"timeout_ms", RONDO_ANALYSE_FIELD_NONE},
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

void rondo_analyse_flight_init(struct rondo_analyse_flight *f, struct rondo_analyse_record *r) {
  *f = (struct rondo_analyse_flight){.record = r, .strings = &r->strings, .first_record_id = -1};
  f->last_group = UINT32_MAX;
  r->source = RONDO_ANALYSE_FLIGHT;
  rondo_analyse_record_track(r);
  r->tracks[0].rank = r->rank_hint;
}

enum rondo_analyse_flight_field rondo_analyse_flight_field_of(struct rondo_analyse_slice key,
                                                              unsigned *hint) {
  for (unsigned tried = 0; tried < FIELD_COUNT; tried++) {
    unsigned at = (*hint + tried) % FIELD_COUNT;
    if (rondo_analyse_slice_is(key, fields[at].key)) {
      *hint = at + 1;
      return fields[at].field;
    }
  }
  return RONDO_ANALYSE_FIELD_NONE;
}

struct rondo_analyse_entry rondo_analyse_entry_empty(void) {
  return (struct rondo_analyse_entry){.record_id = -1, .pg_id = -1};
}

int64_t *rondo_analyse_entry_number(struct rondo_analyse_entry *e,
                                    enum rondo_analyse_flight_field field) {
  int64_t *const numbers[] = {[RONDO_ANALYSE_FIELD_RECORD_ID] = &e->record_id,
                              [RONDO_ANALYSE_FIELD_PG_ID] = &e->pg_id,
                              [RONDO_ANALYSE_FIELD_SEQ] = &e->seq,
                              [RONDO_ANALYSE_FIELD_P2P_SEQ] = &e->p2p_seq,
                              [RONDO_ANALYSE_FIELD_CREATED] = &e->created_ns,
                              [RONDO_ANALYSE_FIELD_STARTED] = &e->started_ns,
                              [RONDO_ANALYSE_FIELD_COMPLETED] = &e->completed_ns};
  return field < sizeof numbers / sizeof *numbers ? numbers[field] : NULL;
}

int rondo_analyse_flight_state_of(struct rondo_analyse_slice name) {
  for (int state = RONDO_ANALYSE_SCHEDULED; state <= RONDO_ANALYSE_COMPLETED; state++) {
    if (rondo_analyse_slice_is(name, rondo_analyse_state_name(state))) {
      return state;
    }
  }
  return RONDO_ANALYSE_CALLED;
}

void rondo_analyse_flight_add_config(struct rondo_analyse_flight *f, uint32_t name, uint32_t desc,
                                     const char *ranks) {
  f->configs = rondo_sim_realloc(f->configs, (f->config_count + 1) * sizeof *f->configs);
  struct rondo_analyse_flight_config *config = &f->configs[f->config_count++];
  *config = (struct rondo_analyse_flight_config){.name = name, .desc = desc};
  config->member_count = rondo_analyse_ranks_parse(ranks, &config->members);
}

void rondo_analyse_flight_add_status(struct rondo_analyse_flight *f,
                                     const struct rondo_analyse_flight_status *status) {
  f->statuses = rondo_sim_realloc(f->statuses, (f->status_count + 1) * sizeof *f->statuses);
  f->statuses[f->status_count++] = *status;
}

static struct rondo_analyse_track *track_of(struct rondo_analyse_flight *f) {
  return &f->record->tracks[0];
}

static uint32_t group_of(struct rondo_analyse_flight *f, const struct rondo_analyse_entry *entry) {
  struct rondo_analyse_track *t = track_of(f);
  uint32_t at = f->last_group;
  if (at < t->group_count && t->groups[at].name == entry->pg_name &&
      t->groups[at].launch == entry->pg_id) {
    return at;
  }
  for (at = 0; at < t->group_count; at++) {
    if (t->groups[at].name == entry->pg_name && t->groups[at].launch == entry->pg_id) {
      return f->last_group = at;
    }
  }
  at = rondo_analyse_track_group(t, entry->pg_name);
  t->groups[at].name = entry->pg_name;
  t->groups[at].desc = entry->pg_desc;
  t->groups[at].launch = entry->pg_id;
  return f->last_group = at;
}

static uint8_t state_of(struct rondo_analyse_flight *f, const struct rondo_analyse_entry *entry,
                        uint8_t *flags) {
  const char *name = rondo_analyse_strings_get(f->strings, entry->name);
  if (!entry->retired || entry->state == RONDO_ANALYSE_COMPLETED) {
    return (uint8_t)entry->state;
  }
  // NCCL's watchdog retires what it saw complete and what it gave up. Other backends never mark the
  // state; they only retire.
  if (strncmp(name, "nccl:", 5) != 0) {
    return RONDO_ANALYSE_COMPLETED;
  }
  *flags |= RONDO_ANALYSE_FAILED;
  return (uint8_t)entry->state;
}

// What a name means. Dumps repeat a few names thousands of times.
static const struct rondo_analyse_flight_name *meaning_of(struct rondo_analyse_flight *f,
                                                          uint32_t name) {
  struct rondo_analyse_flight_name *m = &f->names[name % 16];
  if (m->name != name || !name) {
    const char *text = rondo_analyse_strings_get(f->strings, name);
    *m = (struct rondo_analyse_flight_name){.name = name};
    m->kind = (uint8_t)rondo_analyse_kind_of(text, &m->uneven);
    m->has_peers = rondo_analyse_peers_of(text, &m->self, &m->peer);
  }
  return m;
}

static uint8_t dtype_of(struct rondo_analyse_flight *f, uint32_t dtype) {
  if (dtype != f->last_dtype) {
    f->last_dtype = dtype;
    f->last_dtype_is =
        (uint8_t)rondo_analyse_dtype_of(rondo_analyse_strings_get(f->strings, dtype));
  }
  return f->last_dtype_is;
}

void rondo_analyse_flight_add_entry(struct rondo_analyse_flight *f,
                                    const struct rondo_analyse_entry *entry) {
  struct rondo_analyse_track *t = track_of(f);
  const struct rondo_analyse_flight_name *name = meaning_of(f, entry->name);
  uint32_t group = group_of(f, entry);
  struct rondo_analyse_call *call = rondo_analyse_track_call(t);
  call->kind = name->kind;
  call->group = group;
  call->name = entry->name;
  call->seq = entry->is_p2p ? entry->p2p_seq : entry->seq;
  call->created_ns = entry->created_ns;
  call->started_ns = entry->started_ns;
  call->completed_ns = entry->completed_ns;
  call->in_count = entry->in_count;
  call->out_count = entry->out_count;
  call->shape = entry->shape;
  call->site = entry->site;
  call->queue = entry->thread;
  call->dtype = dtype_of(f, entry->dtype);
  call->flags = (entry->counts_known ? RONDO_ANALYSE_COUNTS_KNOWN : 0) |
                (name->uneven ? RONDO_ANALYSE_UNEVEN_OK : 0);
  call->state = state_of(f, entry, &call->flags);
  if (name->has_peers) {
    call->peer = name->peer;
    t->groups[group].own_index = name->self;
  }
  if (entry->record_id >= 0 && f->first_record_id < 0) {
    f->first_record_id = entry->record_id;
  }
  t->states_known |= call->state != RONDO_ANALYSE_CALLED;
  t->starts_known |= entry->started_ns > 0;
}

uint32_t rondo_analyse_flight_site(struct rondo_analyse_strings *strings, const char *file,
                                   int64_t line, const char *function) {
  if (!*file || strstr(file, "/torch/") || strstr(file, "c10d_logger") || !strcmp(file, "??")) {
    return 0;
  }
  struct rondo_sim_text text = {0};
  rondo_sim_text_add(&text, "%s:%lld in %s", file, (long long)(line < 0 ? 0 : line), function);
  uint32_t site = rondo_analyse_strings_add(strings, text.data, text.size_bytes);
  rondo_sim_text_fini(&text);
  return site;
}

// Operations inside a coalesced launch are recorded and never updated. The entry of the launch,
// which follows them with the same number, has their state.
static void coalesced_settle(struct rondo_analyse_track *t) {
  for (size_t i = 0; i < t->call_count; i++) {
    struct rondo_analyse_call *launch = &t->calls[i];
    if (launch->kind != RONDO_ANALYSE_COALESCED) {
      continue;
    }
    bool point_to_point = false;
    for (size_t k = i; k-- > 0 && t->calls[k].group == launch->group &&
                       t->calls[k].kind != RONDO_ANALYSE_COALESCED &&
                       t->calls[k].seq == launch->seq;) {
      t->calls[k].state = launch->state;
      t->calls[k].flags |= RONDO_ANALYSE_MEMBER | RONDO_ANALYSE_SAME_LAUNCH;
      point_to_point |= t->calls[k].kind >= RONDO_ANALYSE_SEND;
    }
    // The members of a launch of sends and receives are matched, not the launch.
    launch->flags |= point_to_point ? RONDO_ANALYSE_MEMBER | RONDO_ANALYSE_SAME_LAUNCH : 0;
  }
}

static bool is_default(const struct rondo_analyse_flight *f,
                       const struct rondo_analyse_group_decl *g) {
  return strcmp(rondo_analyse_strings_get(f->strings, g->desc), "default_pg") == 0;
}

// The line of pg_config that describes a group, found by name. The default group, which some
// backends leave without a name, is found by its description.
static const struct rondo_analyse_flight_config *
config_of(const struct rondo_analyse_flight *f, const struct rondo_analyse_group_decl *g) {
  const struct rondo_analyse_flight_config *found = NULL;
  for (size_t i = 0; i < f->config_count; i++) {
    const struct rondo_analyse_flight_config *c = &f->configs[i];
    if (c->name == g->name && (c->desc == g->desc || !found)) {
      found = c;
    }
  }
  for (size_t i = 0; !found && i < f->config_count; i++) {
    found = f->configs[i].name == 0 && is_default(f, g) ? &f->configs[i] : NULL;
  }
  return found;
}

static void members_settle(struct rondo_analyse_flight *f, struct rondo_analyse_group_decl *g) {
  const struct rondo_analyse_flight_config *c = config_of(f, g);
  if (!c || !c->member_count) {
    return;
  }
  g->members = rondo_sim_alloc(c->member_count * sizeof *g->members);
  memcpy(g->members, c->members, c->member_count * sizeof *g->members);
  g->member_count = c->member_count;
  g->size = (int64_t)c->member_count;
  g->desc = g->desc ? g->desc : c->desc;
}

static void status_settle(struct rondo_analyse_flight *f, struct rondo_analyse_group_decl *g) {
  for (size_t i = 0; i < f->status_count; i++) {
    if (f->statuses[i].pg_id == g->launch) {
      g->last_enqueued = f->statuses[i].last_enqueued;
      g->last_started = f->statuses[i].last_started;
      g->last_completed = f->statuses[i].last_completed;
    }
  }
}

// Adds the groups of pg_config in which this rank has made no call that is still in the ring.
static void groups_without_calls(struct rondo_analyse_flight *f) {
  struct rondo_analyse_track *t = track_of(f);
  for (size_t i = 0; i < f->config_count; i++) {
    uint32_t at = rondo_analyse_track_find(t, f->configs[i].name);
    if (at == UINT32_MAX && f->configs[i].name) {
      at = rondo_analyse_track_group(t, f->configs[i].name);
      t->groups[at].name = f->configs[i].name;
      t->groups[at].desc = f->configs[i].desc;
      members_settle(f, &t->groups[at]);
    }
  }
}

static void group_settle(struct rondo_analyse_flight *f, struct rondo_analyse_group_decl *g) {
  members_settle(f, g);
  status_settle(f, g);
  for (size_t i = 0; i < g->member_count; i++) {
    if (g->members[i] == track_of(f)->rank) {
      g->own_index = (int64_t)i;
    }
  }
  g->launch = RONDO_ANALYSE_NOT_RECORDED;
}

void rondo_analyse_flight_finish(struct rondo_analyse_flight *f) {
  struct rondo_analyse_track *t = track_of(f);
  const char *version = rondo_analyse_strings_get(f->strings, f->version);
  if (f->version && strncmp(version, "2.", 2) != 0) {
    rondo_analyse_record_problem(f->record, 0, 0,
                                 "has Flight Recorder version %.20s; it is read as 2.10 is, the "
                                 "last one known here",
                                 version);
  }
  t->front_missing = f->first_record_id > 0;
  for (size_t i = 0; i < t->group_count; i++) {
    group_settle(f, &t->groups[i]);
  }
  groups_without_calls(f);
  for (size_t i = 0; i < t->call_count; i++) {
    struct rondo_analyse_call *call = &t->calls[i];
    const struct rondo_analyse_group_decl *g = &t->groups[call->group];
    if (call->kind < RONDO_ANALYSE_SEND && call->seq > 0 && call->seq <= g->last_completed) {
      call->state = RONDO_ANALYSE_COMPLETED;
    } else if (call->kind < RONDO_ANALYSE_SEND && call->state == RONDO_ANALYSE_SCHEDULED &&
               call->seq > 0 && call->seq <= g->last_started) {
      call->state = RONDO_ANALYSE_STARTED;
      t->starts_known = true;
    }
  }
  coalesced_settle(t);
  for (size_t i = 0; i < f->config_count; i++) {
    free(f->configs[i].members);
  }
  free(f->configs);
  free(f->statuses);
}
