// Flight Recorder dumps as PyTorch writes them by default: a pickle.
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/flight.h"
#include "sim/analyse/json.h"
#include "sim/analyse/pickle.h"
#include "sim/analyse/read.h"
#include "sim/common/text.h"

struct reader {
  struct rondo_analyse_flight flight;
  struct rondo_sim_text shape; // scratch
  unsigned hint;
  // indexed by the number of a key's string: 1 + its field; 0: not looked up yet
  uint8_t fields[256];
};

static struct rondo_analyse_slice slice_of(const char *text) {
  return (struct rondo_analyse_slice){text, strlen(text)};
}

// Appends a number. printf is too slow for the millions of sizes in a large job's dumps.
static void number_add(struct rondo_sim_text *text, int64_t number) {
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

// Writes a list of shapes as text; returns the number of elements.
static uint64_t sizes_read(const struct rondo_analyse_pickle *p,
                           struct rondo_analyse_pickle_value list, struct rondo_sim_text *text) {
  uint32_t count, dims;
  const struct rondo_analyse_pickle_value *shapes = rondo_analyse_pickle_items(p, list, &count);
  rondo_sim_text_clear(text);
  rondo_sim_text_add_bytes(text, "[", 1);
  for (uint32_t i = 0; i < count; i++) {
    const struct rondo_analyse_pickle_value *sizes =
        rondo_analyse_pickle_items(p, shapes[i], &dims);
    rondo_sim_text_add_bytes(text, &", ["[i ? 0 : 2], i ? 3 : 1);
    for (uint32_t k = 0; k < dims; k++) {
      rondo_sim_text_add_bytes(text, ", ", k ? 2 : 0);
      number_add(text, rondo_analyse_pickle_integer(p, sizes[k], 0));
    }
    rondo_sim_text_add_bytes(text, "]", 1);
  }
  rondo_sim_text_add_bytes(text, "]", 1);
  return rondo_analyse_shape_elements(text->data, text->size_bytes);
}

// The call site: the innermost frame that is the user's.
static uint32_t site_read(const struct rondo_analyse_pickle *p,
                          struct rondo_analyse_pickle_value frames) {
  uint32_t count, site = 0;
  const struct rondo_analyse_pickle_value *list = rondo_analyse_pickle_items(p, frames, &count);
  for (uint32_t i = 0; i < count && !site; i++) {
    site = rondo_analyse_flight_site(
        p->strings, rondo_analyse_pickle_text(p, rondo_analyse_pickle_get(p, list[i], "filename")),
        rondo_analyse_pickle_integer(p, rondo_analyse_pickle_get(p, list[i], "line"), 0),
        rondo_analyse_pickle_text(p, rondo_analyse_pickle_get(p, list[i], "name")));
  }
  return site;
}

static uint32_t string_read(const struct rondo_analyse_pickle *p,
                            struct rondo_analyse_pickle_value value) {
  (void)p;
  return value.type == RONDO_ANALYSE_PICKLE_STRING ? (uint32_t)value.integer : 0;
}

static uint32_t first_string(const struct rondo_analyse_pickle *p,
                             struct rondo_analyse_pickle_value list) {
  uint32_t count;
  const struct rondo_analyse_pickle_value *items = rondo_analyse_pickle_items(p, list, &count);
  return count ? string_read(p, items[0]) : string_read(p, list);
}

static void group_read(const struct rondo_analyse_pickle *p, struct rondo_analyse_pickle_value pair,
                       struct rondo_analyse_entry *entry) {
  uint32_t count;
  const struct rondo_analyse_pickle_value *items = rondo_analyse_pickle_items(p, pair, &count);
  entry->pg_name = first_string(p, pair);
  entry->pg_desc = count > 1 ? string_read(p, items[1]) : 0;
}

static void field_read(struct reader *reader, const struct rondo_analyse_pickle *p,
                       enum rondo_analyse_flight_field field,
                       struct rondo_analyse_pickle_value value, struct rondo_analyse_entry *entry) {
  bool is_number =
      value.type == RONDO_ANALYSE_PICKLE_INTEGER || value.type == RONDO_ANALYSE_PICKLE_BOOL;
  int64_t number = is_number ? value.integer : 0, *at = rondo_analyse_entry_number(entry, field);
  if (at) {
    *at = number;
    return;
  }
  switch (field) {
  case RONDO_ANALYSE_FIELD_PROCESS_GROUP:
    group_read(p, value, entry);
    break;
  case RONDO_ANALYSE_FIELD_THREAD_ID:
    entry->thread = string_read(p, value);
    break;
  case RONDO_ANALYSE_FIELD_NAME:
    entry->name = string_read(p, value);
    break;
  case RONDO_ANALYSE_FIELD_IN_SIZES:
    entry->in_count = sizes_read(p, value, &reader->shape);
    entry->shape =
        rondo_analyse_strings_add(p->strings, reader->shape.data, reader->shape.size_bytes);
    entry->counts_known = true;
    break;
  case RONDO_ANALYSE_FIELD_OUT_SIZES:
    entry->out_count = sizes_read(p, value, &reader->shape);
    break;
  case RONDO_ANALYSE_FIELD_IN_DTYPES:
    entry->dtype = first_string(p, value);
    break;
  case RONDO_ANALYSE_FIELD_STATE:
    entry->state = rondo_analyse_flight_state_of(slice_of(rondo_analyse_pickle_text(p, value)));
    break;
  case RONDO_ANALYSE_FIELD_RETIRED:
    entry->retired = number != 0;
    break;
  case RONDO_ANALYSE_FIELD_IS_P2P:
    entry->is_p2p = number != 0;
    break;
  case RONDO_ANALYSE_FIELD_FRAMES:
    entry->site = site_read(p, value);
    break;
  default:
    break;
  }
}

// The field that a key names. Keys are the first strings of a dump, so their numbers are small.
static enum rondo_analyse_flight_field field_of(struct reader *reader,
                                                const struct rondo_analyse_pickle *p,
                                                struct rondo_analyse_pickle_value key) {
  bool small = key.type == RONDO_ANALYSE_PICKLE_STRING && key.integer < 256;
  if (small && reader->fields[key.integer]) {
    return (enum rondo_analyse_flight_field)(reader->fields[key.integer] - 1);
  }
  enum rondo_analyse_flight_field field =
      rondo_analyse_flight_field_of(slice_of(rondo_analyse_pickle_text(p, key)), &reader->hint);
  if (small) {
    reader->fields[key.integer] = (uint8_t)(1 + field);
  }
  return field;
}

static void entry_read(void *context, const struct rondo_analyse_pickle *p,
                       struct rondo_analyse_pickle_value dict) {
  struct reader *reader = context;
  struct rondo_analyse_entry entry = rondo_analyse_entry_empty();
  uint32_t count;
  const struct rondo_analyse_pickle_value *items = rondo_analyse_pickle_items(p, dict, &count);
  if (dict.type != RONDO_ANALYSE_PICKLE_DICT) {
    return;
  }
  for (uint32_t i = 0; i + 1 < count; i += 2) {
    field_read(reader, p, field_of(reader, p, items[i]), items[i + 1], &entry);
  }
  rondo_analyse_flight_add_entry(&reader->flight, &entry);
}

static void config_read(struct reader *reader, const struct rondo_analyse_pickle *p,
                        struct rondo_analyse_pickle_value dict) {
  uint32_t count;
  const struct rondo_analyse_pickle_value *items = rondo_analyse_pickle_items(p, dict, &count);
  for (uint32_t i = 0; i + 1 < count; i += 2) {
    struct rondo_analyse_pickle_value one = items[i + 1];
    rondo_analyse_flight_add_config(
        &reader->flight, string_read(p, items[i]),
        string_read(p, rondo_analyse_pickle_get(p, one, "desc")),
        rondo_analyse_pickle_text(p, rondo_analyse_pickle_get(p, one, "ranks")));
  }
}

static void status_read(struct reader *reader, const struct rondo_analyse_pickle *p,
                        struct rondo_analyse_pickle_value dict) {
  uint32_t count;
  const struct rondo_analyse_pickle_value *items = rondo_analyse_pickle_items(p, dict, &count);
  for (uint32_t i = 0; i + 1 < count; i += 2) {
    struct rondo_analyse_pickle_value one = items[i + 1];
    struct rondo_analyse_flight_status status = {
        rondo_analyse_pickle_integer(p, items[i], -1),
        rondo_analyse_pickle_integer(
            p, rondo_analyse_pickle_get(p, one, "last_enqueued_collective"), -1),
        rondo_analyse_pickle_integer(p, rondo_analyse_pickle_get(p, one, "last_started_collective"),
                                     -1),
        rondo_analyse_pickle_integer(
            p, rondo_analyse_pickle_get(p, one, "last_completed_collective"), -1)};
    rondo_analyse_flight_add_status(&reader->flight, &status);
  }
}

static bool is_dump(const struct rondo_analyse_pickle *p, struct rondo_analyse_pickle_value top) {
  return rondo_analyse_pickle_get(p, top, "pg_config").type == RONDO_ANALYSE_PICKLE_DICT ||
         rondo_analyse_pickle_get(p, top, "entries").type == RONDO_ANALYSE_PICKLE_LIST;
}

void rondo_analyse_read_pickle(struct rondo_analyse_record *r, struct rondo_analyse_input *in) {
  struct rondo_analyse_pickle p;
  struct reader reader = {0};
  struct rondo_analyse_pickle_value top;
  rondo_analyse_flight_init(&reader.flight, r);
  rondo_analyse_pickle_init(&p, in, &r->strings);
  p.streamed_key = "entries";
  p.entry = entry_read;
  p.context = &reader;
  bool whole = rondo_analyse_pickle_run(&p, &top);
  if (!whole) {
    rondo_analyse_record_problem(r, 0, p.error_offset, "%s", p.message);
    r->tracks[0].cut_off = true;
  }
  config_read(&reader, &p, rondo_analyse_pickle_get(&p, top, "pg_config"));
  status_read(&reader, &p, rondo_analyse_pickle_get(&p, top, "pg_status"));
  reader.flight.version = string_read(&p, rondo_analyse_pickle_get(&p, top, "version"));
  bool dump = (whole && is_dump(&p, top)) || r->tracks[0].call_count;
  if (whole && !dump) {
    rondo_analyse_record_problem(
        r, 0, 0, "is a pickle, but not a Flight Recorder dump: no pg_config, no entries");
  }
  rondo_analyse_flight_finish(&reader.flight);
  r->unusable = !dump;
  rondo_analyse_pickle_fini(&p);
  rondo_sim_text_fini(&reader.shape);
}
