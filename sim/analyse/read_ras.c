// The output of `ncclras -f json`: the members of each communicator, the members that do not
// answer, and how many collectives of each kind each rank has begun. It has counts and no order.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/read.h"
#include "sim/common/text.h"

struct member {
  uint32_t host, counts;
  bool aborted;
  int64_t rank, pid, device, total;
};

static int64_t counts_read(struct rondo_analyse_record *r, struct rondo_analyse_json *j,
                           uint32_t *text_id) {
  struct rondo_sim_text text = {0};
  struct rondo_analyse_slice key;
  int64_t total = 0;
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &key)) {
    int size = key.size_bytes < 40 ? (int)key.size_bytes : 40;
    rondo_sim_text_add(&text, text.size_bytes ? ", %.*s " : "%.*s ", size, key.data);
    int64_t count = rondo_analyse_json_integer(j, 0);
    rondo_sim_text_add(&text, "%lld", (long long)count);
    bool sane = count > 0 && count < INT64_MAX / 2 && total < INT64_MAX / 2;
    total += sane ? count : 0;
  }
  *text_id =
      text.size_bytes ? rondo_analyse_strings_add(&r->strings, text.data, text.size_bytes) : 0;
  rondo_sim_text_fini(&text);
  return total;
}

// A rank has left its communicator if the communicator reports an error or is being aborted.
static void status_read(struct rondo_analyse_json *j, struct member *m) {
  struct rondo_analyse_slice key;
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &key)) {
    int c = rondo_analyse_json_peek(j);
    if (rondo_analyse_slice_is(key, "async_error") && c != '"') {
      m->aborted |= rondo_analyse_json_integer(j, 0) != 0;
    } else if (rondo_analyse_slice_is(key, "abort_flag") && (c == 't' || c == 'f')) {
      int value;
      rondo_analyse_json_literal(j, &value);
      m->aborted |= value == 1;
    } else {
      rondo_analyse_json_skip(j);
    }
  }
}

static struct member member_read(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  static const struct rondo_analyse_field fields[] = {
      {"rank", RONDO_ANALYSE_READ_NUMBER, offsetof(struct member, rank)},
      {"host", RONDO_ANALYSE_READ_STRING, offsetof(struct member, host)},
      {"pid", RONDO_ANALYSE_READ_NUMBER, offsetof(struct member, pid)},
      {"cuda_dev", RONDO_ANALYSE_READ_NUMBER, offsetof(struct member, device)},
      {0}};
  struct rondo_analyse_slice key;
  struct member m = {.rank = -1, .pid = -1, .device = -1, .total = -1};
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &key)) {
    if (rondo_analyse_slice_is(key, "status") && rondo_analyse_json_peek(j) == '{') {
      status_read(j, &m);
    } else if (rondo_analyse_slice_is(key, "collective_counts") &&
               rondo_analyse_json_peek(j) == '{') {
      m.total = counts_read(r, j, &m.counts);
    } else if (!rondo_analyse_read_field(r, j, key, fields, &m)) {
      rondo_analyse_json_skip(j);
    }
  }
  return m;
}

static size_t track_of(struct rondo_analyse_record *r, const struct member *m) {
  for (size_t i = 0; i < r->track_count; i++) {
    const struct rondo_analyse_track *t = &r->tracks[i];
    if (m->pid >= 0 && t->host == m->host && t->pid == m->pid && t->device == m->device) {
      return i;
    }
  }
  size_t at = rondo_analyse_record_track(r);
  r->tracks[at].host = m->host;
  r->tracks[at].pid = m->pid;
  r->tracks[at].device = m->device;
  return at;
}

static void member_add(struct rondo_analyse_record *r, const struct member *m, uint32_t hash,
                       bool missing) {
  size_t at = track_of(r, m); // this call may move the tracks
  struct rondo_analyse_track *t = &r->tracks[at];
  uint32_t added = rondo_analyse_track_group(t, hash); // this call may move the groups
  struct rondo_analyse_group_decl *g = &t->groups[added];
  g->name = hash;
  g->own_index = m->rank;
  g->counts = m->counts;
  g->last_enqueued = m->total >= 0 ? m->total : RONDO_ANALYSE_NOT_RECORDED;
  t->dead |= missing || m->aborted;
}

// Sets key, name and size of the groups that were added under a stand-in.
static void name_settle(struct rondo_analyse_record *r, uint32_t stand_in, uint32_t hash,
                        uint32_t second, int64_t size) {
  struct rondo_sim_text key = {0};
  rondo_sim_text_add(&key, "%s", rondo_analyse_strings_get(&r->strings, hash));
  rondo_sim_text_add(&key, ":%s", rondo_analyse_strings_get(&r->strings, second));
  uint32_t whole = rondo_analyse_strings_add(&r->strings, key.data, key.size_bytes);
  for (size_t i = 0; i < r->track_count; i++) {
    for (size_t k = 0; k < r->tracks[i].group_count; k++) {
      struct rondo_analyse_group_decl *g = &r->tracks[i].groups[k];
      if (g->key == stand_in) {
        g->key = g->handle = whole;
        g->name = hash;
        g->size = size;
      }
    }
  }
  rondo_sim_text_fini(&key);
}

// Reads the members of one communicator. Their groups learn its size at the end, because the size
// may come last.
static void communicator_read(struct rondo_analyse_record *r, struct rondo_analyse_json *j,
                              uint32_t serial) {
  struct rondo_analyse_slice key;
  int64_t size = 0;
  char name[40];
  // Members are added under a stand-in until the communicator's name is known.
  int n = snprintf(name, sizeof name, "communicator %u", serial);
  uint32_t stand_in = rondo_analyse_strings_add(&r->strings, name, (size_t)n);
  uint32_t hash = stand_in, second = 0;
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &key)) {
    bool missing = rondo_analyse_slice_is(key, "missing_ranks");
    if (rondo_analyse_slice_is(key, "hash")) {
      hash = rondo_analyse_read_string(r, j);
    } else if (rondo_analyse_slice_is(key, "secondary_hash")) {
      second = rondo_analyse_read_string(r, j);
    } else if (rondo_analyse_slice_is(key, "size")) {
      size = rondo_analyse_json_integer(j, 0);
    } else if ((missing || rondo_analyse_slice_is(key, "ranks")) &&
               rondo_analyse_json_peek(j) == '[') {
      rondo_analyse_json_open(j, '[');
      while (rondo_analyse_json_item(j)) {
        struct member m = member_read(r, j);
        member_add(r, &m, stand_in, missing);
      }
    } else {
      rondo_analyse_json_skip(j);
    }
  }
  name_settle(r, stand_in, hash, second, size);
}

void rondo_analyse_read_ras(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  uint32_t serial = 0;
  r->source = RONDO_ANALYSE_RAS;
  j->commas_optional = true; // NCCL 2.28 omits a comma before a missing rank's status
  rondo_analyse_json_open(j, '[');
  while (rondo_analyse_json_item(j)) {
    communicator_read(r, j, serial++);
  }
  j->commas_optional = false;
}
