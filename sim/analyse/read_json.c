// JSON files: the keys of the outermost object tell the format. Reads Flight Recorder dumps itself.
#include <stddef.h>

#include "sim/analyse/flight.h"
#include "sim/analyse/json.h"
#include "sim/analyse/read.h"

struct reader {
  struct rondo_analyse_record *record;
  struct rondo_analyse_json json;
  struct rondo_analyse_flight flight;
  uint32_t version; // string
  unsigned hint;
};

static void flight_begin(struct reader *reader) {
  if (!reader->flight.record) {
    rondo_analyse_flight_init(&reader->flight, reader->record);
  }
}

static void group_read(struct reader *reader, struct rondo_analyse_entry *entry) {
  struct rondo_analyse_json *j = &reader->json;
  if (rondo_analyse_json_peek(j) == '"') { // early versions write the name alone
    entry->pg_name = rondo_analyse_read_string(reader->record, j);
    return;
  }
  int at = 0;
  rondo_analyse_json_open(j, '[');
  while (rondo_analyse_json_item(j)) {
    uint32_t text = rondo_analyse_read_string(reader->record, j);
    entry->pg_name = at == 0 ? text : entry->pg_name;
    entry->pg_desc = at == 1 ? text : entry->pg_desc;
    at++;
  }
}

static uint32_t first_string(struct reader *reader) {
  struct rondo_analyse_json *j = &reader->json;
  uint32_t first = 0;
  if (rondo_analyse_json_peek(j) != '[') {
    return rondo_analyse_read_string(reader->record, j);
  }
  rondo_analyse_json_open(j, '[');
  for (int at = 0; rondo_analyse_json_item(j); at++) {
    if (at == 0) {
      first = rondo_analyse_read_string(reader->record, j);
    } else {
      rondo_analyse_json_skip(j);
    }
  }
  return first;
}

static bool boolean_read(struct rondo_analyse_json *j) {
  int value = 0;
  int c = rondo_analyse_json_peek(j);
  if (c == 't' || c == 'f' || c == 'n') {
    rondo_analyse_json_literal(j, &value);
    return value == 1;
  }
  return rondo_analyse_json_integer(j, 0) != 0;
}

// The call site: the innermost frame that is the user's. Dumps that PyTorch wrote as JSON hold no
// frames; dumps that were converted from a pickle do.
static uint32_t site_read(struct reader *reader) {
  struct frame {
    uint32_t name, file;
    int64_t line;
  };
  static const struct rondo_analyse_field fields[] = {
      {"name", RONDO_ANALYSE_READ_STRING, offsetof(struct frame, name)},
      {"filename", RONDO_ANALYSE_READ_STRING, offsetof(struct frame, file)},
      {"line", RONDO_ANALYSE_READ_NUMBER, offsetof(struct frame, line)},
      {0}};
  struct rondo_analyse_strings *strings = &reader->record->strings;
  uint32_t site = 0;
  rondo_analyse_json_open(&reader->json, '[');
  while (rondo_analyse_json_item(&reader->json)) {
    struct frame frame = {0};
    rondo_analyse_read_object(reader->record, &reader->json, fields, &frame);
    site = site ? site
                : rondo_analyse_flight_site(strings, rondo_analyse_strings_get(strings, frame.file),
                                            frame.line,
                                            rondo_analyse_strings_get(strings, frame.name));
  }
  return site;
}

static void sizes_read(struct reader *reader, enum rondo_analyse_flight_field field,
                       struct rondo_analyse_entry *entry) {
  struct rondo_analyse_slice text;
  if (!rondo_analyse_json_raw(&reader->json, &text)) {
    return;
  }
  uint64_t elements = rondo_analyse_shape_elements(text.data, text.size_bytes);
  if (field == RONDO_ANALYSE_FIELD_OUT_SIZES) {
    entry->out_count = elements;
    return;
  }
  entry->in_count = elements;
  entry->counts_known = true;
  entry->shape = rondo_analyse_strings_add(&reader->record->strings, text.data, text.size_bytes);
}

static void state_read(struct reader *reader, struct rondo_analyse_entry *entry) {
  struct rondo_analyse_slice text;
  if (rondo_analyse_json_peek(&reader->json) == '"') {
    rondo_analyse_json_string(&reader->json, &text);
    entry->state = rondo_analyse_flight_state_of(text);
  } else {
    rondo_analyse_json_skip(&reader->json);
  }
}

static void field_read(struct reader *reader, enum rondo_analyse_flight_field field,
                       struct rondo_analyse_entry *entry) {
  int64_t *number = rondo_analyse_entry_number(entry, field);
  if (number) {
    *number = rondo_analyse_json_integer(&reader->json, 0);
    return;
  }
  switch (field) {
  case RONDO_ANALYSE_FIELD_PROCESS_GROUP:
    group_read(reader, entry);
    break;
  case RONDO_ANALYSE_FIELD_THREAD_ID:
    entry->thread = rondo_analyse_read_string(reader->record, &reader->json);
    break;
  case RONDO_ANALYSE_FIELD_NAME:
    entry->name = rondo_analyse_read_string(reader->record, &reader->json);
    break;
  case RONDO_ANALYSE_FIELD_IN_SIZES:
  case RONDO_ANALYSE_FIELD_OUT_SIZES:
    sizes_read(reader, field, entry);
    break;
  case RONDO_ANALYSE_FIELD_IN_DTYPES:
    entry->dtype = first_string(reader);
    break;
  case RONDO_ANALYSE_FIELD_STATE:
    state_read(reader, entry);
    break;
  case RONDO_ANALYSE_FIELD_RETIRED:
    entry->retired = boolean_read(&reader->json);
    break;
  case RONDO_ANALYSE_FIELD_IS_P2P:
    entry->is_p2p = boolean_read(&reader->json);
    break;
  case RONDO_ANALYSE_FIELD_FRAMES:
    entry->site = site_read(reader);
    break;
  default:
    rondo_analyse_json_skip(&reader->json);
  }
}

static void entries_read(struct reader *reader) {
  struct rondo_analyse_json *j = &reader->json;
  struct rondo_analyse_slice key;
  flight_begin(reader);
  rondo_analyse_json_open(j, '[');
  while (rondo_analyse_json_item(j)) {
    struct rondo_analyse_entry entry = rondo_analyse_entry_empty();
    rondo_analyse_json_open(j, '{');
    while (rondo_analyse_json_key(j, &key)) {
      field_read(reader, rondo_analyse_flight_field_of(key, &reader->hint), &entry);
    }
    if (!j->failed) {
      rondo_analyse_flight_add_entry(&reader->flight, &entry);
    }
  }
}

static void config_read(struct reader *reader) {
  struct config {
    uint32_t desc, ranks;
  };
  static const struct rondo_analyse_field fields[] = {
      {"desc", RONDO_ANALYSE_READ_STRING, offsetof(struct config, desc)},
      {"ranks", RONDO_ANALYSE_READ_LIST, offsetof(struct config, ranks)},
      {0}};
  struct rondo_analyse_strings *strings = &reader->record->strings;
  struct rondo_analyse_slice key;
  flight_begin(reader);
  rondo_analyse_json_open(&reader->json, '{');
  while (rondo_analyse_json_key(&reader->json, &key)) {
    uint32_t name = rondo_analyse_strings_add(strings, key.data, key.size_bytes);
    struct config config = {0};
    rondo_analyse_read_object(reader->record, &reader->json, fields, &config);
    rondo_analyse_flight_add_config(&reader->flight, name, config.desc,
                                    rondo_analyse_strings_get(strings, config.ranks));
  }
}

static void status_read(struct reader *reader) {
  static const struct rondo_analyse_field fields[] = {
      {"last_enqueued_collective", RONDO_ANALYSE_READ_NUMBER,
       offsetof(struct rondo_analyse_flight_status, last_enqueued)},
      {"last_started_collective", RONDO_ANALYSE_READ_NUMBER,
       offsetof(struct rondo_analyse_flight_status, last_started)},
      {"last_completed_collective", RONDO_ANALYSE_READ_NUMBER,
       offsetof(struct rondo_analyse_flight_status, last_completed)},
      {0}};
  struct rondo_analyse_slice key;
  flight_begin(reader);
  rondo_analyse_json_open(&reader->json, '{');
  while (rondo_analyse_json_key(&reader->json, &key)) {
    struct rondo_analyse_flight_status status = {rondo_analyse_slice_integer(key, -1), -1, -1, -1};
    rondo_analyse_read_object(reader->record, &reader->json, fields, &status);
    rondo_analyse_flight_add_status(&reader->flight, &status);
  }
}

// Reads the value of one key of the outermost object.
static void member_read(struct reader *reader, struct rondo_analyse_slice key) {
  struct rondo_analyse_record *r = reader->record;
  struct rondo_analyse_json *j = &reader->json;
  if (rondo_analyse_slice_is(key, "entries") && rondo_analyse_json_peek(j) == '[') {
    entries_read(reader);
  } else if (rondo_analyse_slice_is(key, "version")) {
    reader->version = rondo_analyse_read_string(r, j);
  } else if (rondo_analyse_slice_is(key, "pg_config")) {
    config_read(reader);
  } else if (rondo_analyse_slice_is(key, "pg_status")) {
    status_read(reader);
  } else if (rondo_analyse_slice_is(key, "traceEvents")) {
    rondo_analyse_read_kineto_events(r, j);
  } else if (rondo_analyse_slice_is(key, "distributedInfo")) {
    rondo_analyse_read_kineto_info(r, j);
  } else if (rondo_analyse_slice_is(key, "communicators")) {
    rondo_analyse_read_ras(r, j);
  } else if (rondo_analyse_slice_is(key, "rondo")) {
    rondo_analyse_read_rondo(r, j);
  } else {
    rondo_analyse_json_skip(j);
  }
}

void rondo_analyse_read_json(struct rondo_analyse_record *r, struct rondo_analyse_input *in) {
  struct reader reader = {.record = r};
  struct rondo_analyse_json *j = &reader.json;
  struct rondo_analyse_slice key;
  rondo_analyse_json_init(j, in);
  if (rondo_analyse_json_peek(j) == '[') {
    rondo_analyse_read_kineto_events(r, j); // a trace may be its bare list of events
  } else if (rondo_analyse_json_open(j, '{')) {
    // A Rondo flight record continues after its first object; its reader reads to the end.
    while (r->source != RONDO_ANALYSE_RONDO && rondo_analyse_json_key(j, &key)) {
      member_read(&reader, key);
    }
  }
  if (r->source != RONDO_ANALYSE_RONDO) {
    rondo_analyse_json_end(j);
  }
  rondo_analyse_read_failure(r, j);
  if (reader.flight.record) {
    reader.flight.version = reader.version;
    rondo_analyse_flight_finish(&reader.flight);
  }
  if (!j->failed && r->track_count == 0) {
    rondo_analyse_record_problem(
        r, 0, 0, "is JSON of no known kind: no entries, traceEvents, communicators or rondo in it");
  }
}
