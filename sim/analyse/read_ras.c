// The output of `ncclras -f json`: the members of each communicator, the members that do not
// answer, and how many collectives of each kind each rank has begun. It has counts and no order.
#include "sim/analyse/read.h"
#include "sim/common/text.h"

struct reader {
  struct rondo_analyse_record *record;
  struct rondo_analyse_values values; // of one communicator
};

// Writes the counts of a member as text into the group; returns their sum.
static int64_t counts_take(const struct reader *reader, struct rondo_analyse_value counts,
                           struct rondo_analyse_group_decl *g) {
  struct rondo_sim_text text = {0};
  int64_t total = 0;
  struct rondo_analyse_container pairs = rondo_analyse_value_items(&reader->values, counts);
  for (uint32_t i = 0; i + 1 < pairs.count; i += 2) {
    int64_t count = rondo_analyse_value_integer(&reader->values, pairs.items[i + 1], 0);
    rondo_sim_text_add(&text, "%s%.40s %lld", i ? ", " : "",
                       rondo_analyse_value_text(&reader->values, pairs.items[i]), (long long)count);
    bool sane = count > 0 && count < INT64_MAX / 2 && total < INT64_MAX / 2;
    total += sane ? count : 0;
  }
  g->counts = rondo_analyse_strings_add(&reader->record->strings, rondo_sim_text_str(&text),
                                        text.size_bytes);
  rondo_sim_text_fini(&text);
  return total;
}

static struct rondo_analyse_group_decl *
member_add(struct reader *reader, struct rondo_analyse_value member, uint32_t key, bool missing) {
  const struct rondo_analyse_values *v = &reader->values;
  struct rondo_analyse_track *t =
      rondo_analyse_record_process(reader->record, rondo_analyse_get_string(v, member, "host"),
                                   rondo_analyse_get_integer(v, member, "pid", -1),
                                   rondo_analyse_get_integer(v, member, "cuda_dev", -1));
  struct rondo_analyse_group_decl *g = rondo_analyse_track_group(t, key);
  struct rondo_analyse_value counts = rondo_analyse_value_get(v, member, "collective_counts");
  g->own_index = rondo_analyse_get_integer(v, member, "rank", -1);
  if (counts.type == RONDO_ANALYSE_DICT) {
    g->last.submitted = counts_take(reader, counts, g);
  }
  // A rank has left its communicator if that reports an error or is being aborted.
  struct rondo_analyse_value status = rondo_analyse_value_get(v, member, "status");
  struct rondo_analyse_value error = rondo_analyse_value_get(v, status, "async_error");
  struct rondo_analyse_value aborts = rondo_analyse_value_get(v, status, "abort_flag");
  t->dead |= missing || (error.type == RONDO_ANALYSE_INTEGER && error.integer) ||
             (aborts.type == RONDO_ANALYSE_INTEGER && aborts.integer);
  return g;
}

static void communicator_add(struct reader *reader, struct rondo_analyse_value communicator,
                             unsigned serial) {
  static const char *const lists[] = {"ranks", "missing_ranks"};
  struct rondo_analyse_record *r = reader->record;
  uint32_t name = rondo_analyse_get_string(&reader->values, communicator, "hash");
  name = name ? name : rondo_analyse_strings_print(&r->strings, "communicator %u", serial);
  uint32_t second = rondo_analyse_get_string(&reader->values, communicator, "secondary_hash");
  uint32_t key =
      rondo_analyse_strings_print(&r->strings, "%s:%s", rondo_analyse_record_text(r, name),
                                  rondo_analyse_record_text(r, second));
  for (int missing = 0; missing < 2; missing++) {
    struct rondo_analyse_container members = rondo_analyse_value_items(
        &reader->values, rondo_analyse_value_get(&reader->values, communicator, lists[missing]));
    for (uint32_t i = 0; i < members.count; i++) {
      if (members.items[i].type == RONDO_ANALYSE_DICT) {
        struct rondo_analyse_group_decl *g = member_add(reader, members.items[i], key, missing);
        g->name = name;
        g->size = rondo_analyse_get_integer(&reader->values, communicator, "size", 0);
      }
    }
  }
}

void rondo_analyse_read_ras(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  struct reader reader = {r, {.strings = &r->strings}};
  r->source = RONDO_ANALYSE_RAS;
  j->commas_optional = true; // NCCL 2.28 omits a comma before a missing rank's status
  rondo_analyse_json_open(j, '[');
  for (unsigned serial = 0; rondo_analyse_json_item(j); serial++) {
    communicator_add(&reader, rondo_analyse_json_value(j, &reader.values), serial);
    reader.values.count = 0;
  }
  j->commas_optional = false;
  rondo_analyse_values_fini(&reader.values);
}
