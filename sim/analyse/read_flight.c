// PyTorch Flight Recorder dumps: pickles as PyTorch writes them by default, or JSON.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/pickle.h"
#include "sim/analyse/read.h"
#include "sim/common/text.h"

// An entry as the dump has it. Strings are numbers in the record's table.
struct entry {
  struct rondo_analyse_call call;
  int64_t record_id, pg_id, p2p_seq, retired, is_p2p;
  uint32_t pg_name, pg_desc, dtype;
};

static const struct entry empty_entry = {
    .call = {.peer = -1, .op = RONDO_ANALYSE_NO_OP}, .record_id = -1, .pg_id = -1};

// What becomes of a field of an entry.
enum field_type { SKIP, NUMBER, STRING, FIRST_STRING, GROUP, STATE, IN_SIZES, OUT_SIZES, FRAMES };

struct field {
  const char *key;
  enum field_type type;
  size_t offset; // of a number or a string in the entry
};

// In the order in which PyTorch writes them.
static const struct field fields[] = {
    {"collective_seq_id", NUMBER, offsetof(struct entry, call.seq)},
    {"duration_ms", SKIP, 0},
    {"frames", FRAMES, 0},
    {"input_dtypes", FIRST_STRING, offsetof(struct entry, dtype)},
    {"input_sizes", IN_SIZES, 0},
    {"is_p2p", NUMBER, offsetof(struct entry, is_p2p)},
    {"op_id", SKIP, 0},
    {"output_dtypes", SKIP, 0},
    {"output_sizes", OUT_SIZES, 0},
    {"p2p_seq_id", NUMBER, offsetof(struct entry, p2p_seq)},
    {"pg_id", NUMBER, offsetof(struct entry, pg_id)},
    {"process_group", GROUP, 0},
    {"profiling_name", STRING, offsetof(struct entry, call.name)},
    {"record_id", NUMBER, offsetof(struct entry, record_id)},
    {"retired", NUMBER, offsetof(struct entry, retired)},
    {"state", STATE, 0},
    {"thread_id", STRING, offsetof(struct entry, call.queue)},
    {"thread_name", SKIP, 0},
    {"time_created_ns", NUMBER, offsetof(struct entry, call.created_ns)},
    {"time_discovered_completed_ns", NUMBER, offsetof(struct entry, call.completed_ns)},
    {"time_discovered_started_ns", NUMBER, offsetof(struct entry, call.started_ns)},
    {"timeout_ms", SKIP, 0},
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

// What an operation's name means, kept for later entries with that name.
struct name_meaning {
  uint32_t name;
  uint8_t kind;
  bool uneven, has_peers;
  int32_t self, peer;
};

// What is known of a dump before its groups are settled.
struct rondo_analyse_flight {
  struct rondo_analyse_record *record;
  struct rondo_analyse_values values;
  struct rondo_analyse_value config, status; // pg_config, pg_status: dictionaries
  uint32_t version;                          // string; 0: not recorded
  struct rondo_sim_text text;                // scratch
  unsigned hint;                             // the field that most likely comes next
  const struct field *key_fields[256];       // of keys, by the number of a key's string
  int64_t first_record_id;
  size_t last_group;             // of the previous entry; tried first
  struct name_meaning names[16]; // indexed by the low bits of the name's number
  uint32_t last_dtype;           // the last dtype, and what it means
  uint8_t last_dtype_is;
};

struct rondo_analyse_flight *rondo_analyse_flight_create(struct rondo_analyse_record *r) {
  struct rondo_analyse_flight *f = rondo_sim_calloc(1, sizeof *f);
  f->record = r;
  f->values.strings = &r->strings;
  f->first_record_id = -1;
  return f;
}

// Makes the record's one track, unless it has one.
static void track_begin(struct rondo_analyse_flight *f) {
  if (!f->record->track_count) {
    f->record->source = RONDO_ANALYSE_FLIGHT;
    rondo_analyse_record_track(f->record)->rank = f->record->rank_hint;
  }
}

static struct rondo_analyse_track *track_of(struct rondo_analyse_flight *f) {
  return &f->record->tracks[0];
}

// The field that a key names. A dump repeats its keys in one order, so the next field is tried
// first.
static const struct field *field_of(struct rondo_analyse_flight *f,
                                    struct rondo_analyse_slice key) {
  static const struct field none = {0};
  for (unsigned tried = 0; tried < FIELD_COUNT; tried++) {
    unsigned at = (f->hint + tried) % FIELD_COUNT;
    if (rondo_analyse_slice_is(key, fields[at].key)) {
      f->hint = at + 1;
      return &fields[at];
    }
  }
  return &none;
}

// Appends a number. printf is too slow for the millions of sizes in a large job's dumps.
static void number_write(struct rondo_sim_text *text, int64_t number) {
  char digits[24];
  size_t at = sizeof digits;
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  do {
    digits[--at] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest);
  if (number < 0) {
    digits[--at] = '-';
  }
  rondo_sim_text_add_bytes(text, digits + at, sizeof digits - at);
}

// Appends numbers and lists of them as JSON writes them. Sizes are lists of lists; what lies deeper
// is written as a number, because a list of a pickle can contain itself.
static void value_write(struct rondo_analyse_flight *f, struct rondo_analyse_value value,
                        int depth) {
  struct rondo_analyse_container list = rondo_analyse_value_items(&f->values, value);
  if (value.type < RONDO_ANALYSE_LIST || depth == 2) {
    number_write(&f->text, rondo_analyse_value_integer(&f->values, value, 0));
    return;
  }
  rondo_sim_text_add_bytes(&f->text, "[", 1);
  for (uint32_t i = 0; i < list.count; i++) {
    rondo_sim_text_add_bytes(&f->text, ", ", i ? 2 : 0);
    value_write(f, list.items[i], depth + 1);
  }
  rondo_sim_text_add_bytes(&f->text, "]", 1);
}

// Takes a list of shapes, which is written as text.
static void sizes_set(struct rondo_analyse_flight *f, struct entry *e, enum field_type type,
                      struct rondo_analyse_slice text) {
  uint64_t elements = rondo_analyse_shape_elements(text.data, text.size_bytes);
  if (type == OUT_SIZES) {
    e->call.out_count = elements;
    return;
  }
  e->call.in_count = elements;
  e->call.flags |= RONDO_ANALYSE_COUNTS_KNOWN;
  e->call.shape = rondo_analyse_strings_add(&f->record->strings, text.data, text.size_bytes);
}

// The call site: the innermost frame that is the user's and not the library's; 0 if there is none.
static uint32_t site_of(struct rondo_analyse_flight *f, struct rondo_analyse_value frames) {
  const struct rondo_analyse_values *v = &f->values;
  struct rondo_analyse_container list = rondo_analyse_value_items(v, frames);
  for (uint32_t i = 0; i < list.count; i++) {
    const char *file = rondo_analyse_get_text(v, list.items[i], "filename");
    if (*file && !strstr(file, "/torch/") && !strstr(file, "c10d_logger") &&
        strcmp(file, "??") != 0) {
      int64_t line = rondo_analyse_get_integer(v, list.items[i], "line", 0);
      return rondo_analyse_strings_print(v->strings, "%s:%lld in %s", file,
                                         (long long)(line < 0 ? 0 : line),
                                         rondo_analyse_get_text(v, list.items[i], "name"));
    }
  }
  return 0;
}

// The string at an index of a list. A string alone counts as a list of one.
static uint32_t string_at(const struct rondo_analyse_flight *f, struct rondo_analyse_value value,
                          uint32_t index) {
  struct rondo_analyse_container list = rondo_analyse_value_items(&f->values, value);
  if (index < list.count) {
    value = list.items[index];
  }
  return index < list.count || index == 0 ? rondo_analyse_value_string(&f->values, value) : 0;
}

static uint8_t state_of_name(const char *name) {
  for (int state = RONDO_ANALYSE_SCHEDULED; state <= RONDO_ANALYSE_COMPLETED; state++) {
    if (strcmp(name, rondo_analyse_state_name(state)) == 0) {
      return (uint8_t)state;
    }
  }
  return RONDO_ANALYSE_CALLED;
}

static void field_set(struct rondo_analyse_flight *f, struct entry *e, const struct field *field,
                      struct rondo_analyse_value value) {
  void *at = (char *)e + field->offset;
  switch (field->type) {
  case NUMBER:
    *(int64_t *)at = rondo_analyse_value_integer(&f->values, value, 0);
    break;
  case STRING:
    *(uint32_t *)at = rondo_analyse_value_string(&f->values, value);
    break;
  case FIRST_STRING:
    *(uint32_t *)at = string_at(f, value, 0);
    break;
  case GROUP: // early versions write the name alone
    e->pg_name = string_at(f, value, 0);
    e->pg_desc = string_at(f, value, 1);
    break;
  case STATE:
    e->call.state = state_of_name(rondo_analyse_value_text(&f->values, value));
    break;
  case IN_SIZES:
  case OUT_SIZES:
    rondo_sim_text_clear(&f->text);
    value_write(f, value, 0);
    sizes_set(f, e, field->type, (struct rondo_analyse_slice){f->text.data, f->text.size_bytes});
    break;
  case FRAMES:
    e->call.site = site_of(f, value);
    break;
  default:
    break;
  }
}

static uint32_t group_of(struct rondo_analyse_flight *f, const struct entry *e) {
  struct rondo_analyse_track *t = track_of(f);
  for (size_t tried = 0; tried < t->group_count; tried++) {
    size_t at = (f->last_group + tried) % t->group_count;
    if (t->groups[at].name == e->pg_name && t->groups[at].launch == e->pg_id) {
      f->last_group = at;
      return (uint32_t)at;
    }
  }
  struct rondo_analyse_group_decl *g = rondo_analyse_track_group(t, e->pg_name);
  g->desc = e->pg_desc;
  g->launch = e->pg_id;
  f->last_group = t->group_count - 1;
  return (uint32_t)f->last_group;
}

static uint8_t state_of(struct rondo_analyse_flight *f, const struct entry *e, uint8_t *flags) {
  const char *name = rondo_analyse_record_text(f->record, e->call.name);
  if (!e->retired || e->call.state == RONDO_ANALYSE_COMPLETED) {
    return e->call.state;
  }
  // NCCL's watchdog retires what it saw complete and what it gave up. Other backends never mark the
  // state; they only retire.
  if (strncmp(name, "nccl:", 5) != 0) {
    return RONDO_ANALYSE_COMPLETED;
  }
  *flags |= RONDO_ANALYSE_FAILED;
  return e->call.state;
}

// What a name means. Dumps repeat a few names thousands of times.
static const struct name_meaning *meaning_of(struct rondo_analyse_flight *f, uint32_t name) {
  struct name_meaning *m = &f->names[name % 16];
  if (m->name != name || !name) {
    const char *text = rondo_analyse_record_text(f->record, name);
    *m = (struct name_meaning){.name = name};
    m->kind = (uint8_t)rondo_analyse_kind_of(text, &m->uneven);
    m->has_peers = rondo_analyse_peers_of(text, &m->self, &m->peer);
  }
  return m;
}

static uint8_t dtype_of(struct rondo_analyse_flight *f, uint32_t dtype) {
  if (dtype != f->last_dtype) {
    f->last_dtype = dtype;
    f->last_dtype_is = (uint8_t)rondo_analyse_dtype_of(rondo_analyse_record_text(f->record, dtype));
  }
  return f->last_dtype_is;
}

// Adds an entry as the track's next call.
static void entry_add(struct rondo_analyse_flight *f, const struct entry *e) {
  struct rondo_analyse_track *t = track_of(f);
  const struct name_meaning *name = meaning_of(f, e->call.name);
  uint32_t group = group_of(f, e);
  struct rondo_analyse_call *call = rondo_analyse_track_call(t);
  *call = e->call;
  call->kind = name->kind;
  call->group = group;
  call->seq = e->is_p2p ? e->p2p_seq : e->call.seq;
  call->dtype = dtype_of(f, e->dtype);
  call->flags |= name->uneven ? RONDO_ANALYSE_UNEVEN_OK : 0;
  call->state = state_of(f, e, &call->flags);
  if (name->has_peers) {
    call->peer = name->peer;
    t->groups[group].own_index = name->self;
  }
  if (e->record_id >= 0 && f->first_record_id < 0) {
    f->first_record_id = e->record_id;
  }
  t->states_known |= call->state != RONDO_ANALYSE_CALLED;
  t->starts_known |= e->call.started_ns > 0;
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

// The value in pg_config that describes a group, found by name. The default group, which some
// backends leave without a name, is found by its description.
static struct rondo_analyse_value config_of(const struct rondo_analyse_flight *f,
                                            const struct rondo_analyse_group_decl *g) {
  struct rondo_analyse_container pairs = rondo_analyse_value_items(&f->values, f->config);
  bool is_default = strcmp(rondo_analyse_record_text(f->record, g->desc), "default_pg") == 0;
  struct rondo_analyse_value found = {0};
  for (uint32_t i = 0; i + 1 < pairs.count; i += 2) {
    uint32_t name = rondo_analyse_value_string(&f->values, pairs.items[i]);
    uint32_t desc = rondo_analyse_get_string(&f->values, pairs.items[i + 1], "desc");
    if (name == g->name && (desc == g->desc || !found.type)) {
      found = pairs.items[i + 1];
    }
  }
  for (uint32_t i = 0; !found.type && is_default && i + 1 < pairs.count; i += 2) {
    found = rondo_analyse_value_string(&f->values, pairs.items[i]) ? found : pairs.items[i + 1];
  }
  return found;
}

static void members_settle(struct rondo_analyse_flight *f, struct rondo_analyse_group_decl *g) {
  struct rondo_analyse_value config = config_of(f, g);
  rondo_analyse_group_members(g, &f->values, rondo_analyse_value_get(&f->values, config, "ranks"));
  if (g->member_count && !g->desc) {
    g->desc = rondo_analyse_get_string(&f->values, config, "desc");
  }
}

static void status_settle(struct rondo_analyse_flight *f, struct rondo_analyse_group_decl *g) {
  struct rondo_analyse_container pairs = rondo_analyse_value_items(&f->values, f->status);
  for (uint32_t i = 0; i + 1 < pairs.count; i += 2) {
    if (rondo_analyse_value_integer(&f->values, pairs.items[i], -1) == g->launch) {
      struct rondo_analyse_value one = pairs.items[i + 1];
      g->last = (struct rondo_analyse_progress){
          rondo_analyse_get_integer(&f->values, one, "last_enqueued_collective", -1),
          rondo_analyse_get_integer(&f->values, one, "last_started_collective", -1),
          rondo_analyse_get_integer(&f->values, one, "last_completed_collective", -1)};
    }
  }
}

// Adds the groups of pg_config in which this rank has made no call that is still in the ring.
static void groups_without_calls(struct rondo_analyse_flight *f) {
  struct rondo_analyse_container pairs = rondo_analyse_value_items(&f->values, f->config);
  for (uint32_t i = 0; i + 1 < pairs.count; i += 2) {
    uint32_t name = rondo_analyse_value_string(&f->values, pairs.items[i]);
    if (name && !rondo_analyse_track_find(track_of(f), name)) {
      struct rondo_analyse_group_decl *g = rondo_analyse_track_group(track_of(f), name);
      g->desc = rondo_analyse_get_string(&f->values, pairs.items[i + 1], "desc");
      members_settle(f, g);
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

// Settles groups and states at the end of the dump.
static void flight_settle(struct rondo_analyse_flight *f) {
  struct rondo_analyse_track *t = track_of(f);
  const char *version = rondo_analyse_record_text(f->record, f->version);
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
    const struct rondo_analyse_progress *last = &t->groups[call->group].last;
    if (call->kind >= RONDO_ANALYSE_SEND || call->seq <= 0) {
      continue;
    }
    if (call->seq <= last->completed) {
      call->state = RONDO_ANALYSE_COMPLETED;
    } else if (call->state == RONDO_ANALYSE_SCHEDULED && call->seq <= last->started) {
      call->state = RONDO_ANALYSE_STARTED;
      t->starts_known = true;
    }
  }
  coalesced_settle(t);
}

void rondo_analyse_flight_finish(struct rondo_analyse_flight *f) {
  if (f->record->source == RONDO_ANALYSE_FLIGHT) {
    flight_settle(f);
  }
  rondo_analyse_values_fini(&f->values);
  rondo_sim_text_fini(&f->text);
  free(f);
}

// Reads one entry of a JSON dump.
static void entry_read(struct rondo_analyse_flight *f, struct rondo_analyse_json *j) {
  struct entry e = empty_entry;
  struct rondo_analyse_slice text;
  uint32_t kept = f->values.count;
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &text)) {
    const struct field *field = field_of(f, text);
    if (field->type == SKIP) {
      rondo_analyse_json_skip(j);
    } else if (field->type != IN_SIZES && field->type != OUT_SIZES) {
      field_set(f, &e, field, rondo_analyse_json_value(j, &f->values));
    } else if (rondo_analyse_json_raw(j, &text)) {
      sizes_set(f, &e, field->type, text);
    }
  }
  f->values.count = kept;
  if (!j->failed) {
    entry_add(f, &e);
  }
}

// A version such as 2.10 may be a string or a number, of which the text counts.
static void version_read(struct rondo_analyse_flight *f, struct rondo_analyse_json *j) {
  struct rondo_analyse_slice text;
  if (rondo_analyse_json_peek(j) == '"')
    f->version = rondo_analyse_value_string(&f->values, rondo_analyse_json_value(j, &f->values));
  else if (rondo_analyse_json_raw(j, &text))
    f->version = rondo_analyse_strings_add(&f->record->strings, text.data, text.size_bytes);
}

// Reads an object; fails if something else comes.
static struct rondo_analyse_value object_read(struct rondo_analyse_flight *f,
                                              struct rondo_analyse_json *j) {
  struct rondo_analyse_value none = {0};
  return rondo_analyse_json_open(j, '{') ? rondo_analyse_json_members(j, &f->values) : none;
}

bool rondo_analyse_flight_read(struct rondo_analyse_flight *f, struct rondo_analyse_json *j,
                               struct rondo_analyse_slice key) {
  if (rondo_analyse_slice_is(key, "version")) {
    version_read(f, j);
  } else if (rondo_analyse_slice_is(key, "pg_config")) {
    track_begin(f);
    f->config = object_read(f, j);
  } else if (rondo_analyse_slice_is(key, "pg_status")) {
    track_begin(f);
    f->status = object_read(f, j);
  } else if (rondo_analyse_slice_is(key, "entries") && rondo_analyse_json_peek(j) == '[') {
    track_begin(f);
    rondo_analyse_json_open(j, '[');
    while (rondo_analyse_json_item(j)) {
      entry_read(f, j);
    }
  } else {
    return false;
  }
  return true;
}

// The field that a key of a pickle names. Keys are the first strings of a dump, so their numbers
// are small.
static const struct field *field_of_string(struct rondo_analyse_flight *f,
                                           struct rondo_analyse_value key) {
  uint32_t id = rondo_analyse_value_string(&f->values, key);
  const struct field *known = id < 256 ? f->key_fields[id] : NULL;
  if (!known) {
    const char *text = rondo_analyse_record_text(f->record, id);
    known = field_of(f, (struct rondo_analyse_slice){text, strlen(text)});
    if (id < 256) {
      f->key_fields[id] = known;
    }
  }
  return known;
}

// Takes one entry of a pickle.
static void entry_take(void *context, struct rondo_analyse_value dict) {
  struct rondo_analyse_flight *f = context;
  struct entry e = empty_entry;
  struct rondo_analyse_container pairs = rondo_analyse_value_items(&f->values, dict);
  if (dict.type != RONDO_ANALYSE_DICT) {
    return;
  }
  for (uint32_t i = 0; i + 1 < pairs.count; i += 2) {
    field_set(f, &e, field_of_string(f, pairs.items[i]), pairs.items[i + 1]);
  }
  entry_add(f, &e);
}

void rondo_analyse_read_pickle(struct rondo_analyse_record *r, struct rondo_analyse_input *in) {
  struct rondo_analyse_pickle p;
  struct rondo_analyse_value top;
  struct rondo_analyse_flight *f = rondo_analyse_flight_create(r);
  track_begin(f);
  rondo_analyse_pickle_init(&p, in, &f->values);
  p.streamed_id = rondo_analyse_strings_add(&r->strings, "entries", 7);
  p.entry = entry_take;
  p.context = f;
  bool whole = rondo_analyse_pickle_run(&p, &top);
  if (!whole) {
    rondo_analyse_record_problem(r, 0, p.error_offset, "%s", p.message);
    r->tracks[0].cut_off = true;
  }
  f->config = rondo_analyse_value_get(&f->values, top, "pg_config");
  f->status = rondo_analyse_value_get(&f->values, top, "pg_status");
  f->version = rondo_analyse_get_string(&f->values, top, "version");
  bool is_dump = f->config.type == RONDO_ANALYSE_DICT ||
                 rondo_analyse_value_get(&f->values, top, "entries").type == RONDO_ANALYSE_LIST;
  r->unusable = !(whole && is_dump) && !r->tracks[0].call_count;
  if (whole && r->unusable) {
    rondo_analyse_record_problem(
        r, 0, 0, "is a pickle, but not a Flight Recorder dump: no pg_config, no entries");
  }
  rondo_analyse_flight_finish(f);
  rondo_analyse_pickle_fini(&p);
}
