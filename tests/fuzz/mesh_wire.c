// Every payload that comes over a socket is read or refused; what is read is written back as it
// was. So is the cost model of a process.
#include "runtime/job/members_entry.h"
#include "runtime/net/wire.h"
#include "tests/support/fuzz.h"

#define BYTES 8192u

static uint8_t written[BYTES];

static void check_same(const struct rondo_wire_reader *r, const struct rondo_wire_writer *w,
                       const uint8_t *data, size_t size) {
  if (!rondo_wire_is_done(r))
    return;
  RONDO_FUZZ_CHECK(!w->full);
  RONDO_FUZZ_CHECK(w->size == size);
  RONDO_FUZZ_CHECK(memcmp(w->bytes, data, size) == 0);
}

static void read_hello(struct rondo_wire_reader *r, struct rondo_wire_writer *w) {
  struct rondo_wire_hello hello;
  rondo_wire_get_hello(r, &hello);
  rondo_wire_put_hello(w, &hello);
}

static void read_member(struct rondo_wire_reader *r, struct rondo_wire_writer *w) {
  // Two, one beside the other or not: the second may say that it is where it could have been left
  // out.
  struct rondo_wire_member m[2] = {{.ranks = NULL}};
  for (uint32_t n = 0; n < 2 && r->size && !r->bad; n++) {
    int is_beside = r->bytes[0] & 2;
    rondo_wire_get_member(r, &m[n], n ? &m[0] : NULL);
    if (!r->bad)
      rondo_wire_put_member(w, &m[n], is_beside ? &m[0] : NULL);
    for (uint32_t i = 0; i < m[n].rank_count; i++)
      RONDO_FUZZ_CHECK(m[n].ranks[i] < RONDO_MAX_RANKS);
    RONDO_FUZZ_CHECK(strlen(m[n].host) < sizeof m[n].host);
    RONDO_FUZZ_CHECK(strlen(m[n].local) < sizeof m[n].local);
  }
  rondo_wire_member_fini(&m[0]);
  rondo_wire_member_fini(&m[1]);
}

static void read_loss(struct rondo_wire_reader *r, struct rondo_wire_writer *w) {
  char text[RONDO_WIRE_TEXT_BYTES + 1];
  uint32_t *ranks;
  rondo_wire_put_u8(w, rondo_wire_get_u8(r));
  rondo_wire_get_text(r, text, sizeof text);
  uint32_t count = rondo_wire_get_ranks(r, &ranks);
  rondo_wire_put_text(w, text);
  rondo_wire_put_ranks(w, ranks, count);
  free(ranks);
}

static void read_numbers(struct rondo_wire_reader *r, struct rondo_wire_writer *w) {
  rondo_wire_put_u64(w, rondo_wire_get_u64(r));
  rondo_wire_put_u32(w, rondo_wire_get_u32(r));
  rondo_wire_put_u16(w, rondo_wire_get_u16(r));
}

static void read_head(const uint8_t *data, size_t size) {
  for (int proven = 0; proven < 2; proven++) {
    struct rondo_wire_head head;
    int good = rondo_wire_head_read(data, size, proven, &head);
    uint8_t bytes[RONDO_WIRE_HEAD_BYTES];
    if (good != 1)
      continue;
    rondo_wire_head_write(bytes, &head);
    RONDO_FUZZ_CHECK(memcmp(bytes, data, sizeof bytes) == 0);
    RONDO_FUZZ_CHECK(head.size <=
                     (proven ? RONDO_WIRE_AUTHENTICATED_BYTES : RONDO_WIRE_UNAUTHENTICATED_BYTES));
    RONDO_FUZZ_CHECK(head.fd_count <= (proven ? RONDO_WIRE_FDS : 0));
  }
}

// An entry. A model that is read is one by which a choice can be made.
static void read_entry(const uint8_t *data, uint32_t size) {
  static const struct rondo_cost_query q = {.kind = RONDO_ALL_REDUCE, .nranks = 9, .bytes = 5000};
  static const struct rondo_cost_query far = {.kind = RONDO_ALL_REDUCE,
                                              .nranks = 12,
                                              .bytes = 5000000,
                                              .link = RONDO_COST_NETWORK,
                                              .machines = 3,
                                              .leaders = 2};
  char why[RONDO_COST_WHY_BYTES] = "";
  struct rondo_cost_file *file;
  if (!rondo_members_entry_model(data, size, &file, why))
    RONDO_FUZZ_CHECK(why[0] && !file);
  else if (file)
    RONDO_FUZZ_CHECK(rondo_cost_choose(&file->model, &q).time_ns >= 0 &&
                     rondo_cost_choose(&file->model, &far).time_ns >= 0);
  free(file);
}

static void take_row(struct rondo_fuzz_input *in, struct rondo_cost_row *row) {
  row->link = (uint8_t)rondo_fuzz_take(in, 1);
  row->kind = (uint8_t)rondo_fuzz_take(in, 1);
  row->algorithm = (uint8_t)rondo_fuzz_take(in, 1);
  for (uint32_t i = 0; i < RONDO_COST_MAX_RANKS; i++)
    for (uint32_t k = 0; k < RONDO_COST_MAX_SIZES; k++)
      row->message_ns[i][k] = (float)rondo_fuzz_take(in, 1) - 1;
}

// Any model, with a right checksum.
static void read_model(const uint8_t *data, size_t size) {
  static const struct rondo_wire_member member = {.host = "a", .local = "b"};
  static uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES];
  static struct rondo_cost_file file;
  struct rondo_fuzz_input in = {data, size};
  struct rondo_cost_model *m = &file.model;
  memset(&file, 0, sizeof file);
  m->rows = file.rows;
  m->cores = (uint32_t)rondo_fuzz_take(&in, 1);
  m->rank_points = (uint32_t)rondo_fuzz_take(&in, 1) % (RONDO_COST_MAX_RANKS + 1);
  m->size_points = (uint32_t)rondo_fuzz_take(&in, 1) % (RONDO_COST_MAX_SIZES + 1);
  m->row_count = (uint32_t)rondo_fuzz_take(&in, 1) % 8;
  for (uint32_t i = 0; i < RONDO_COST_MAX_RANKS; i++)
    m->ranks[i] = (uint32_t)rondo_fuzz_take(&in, 1);
  for (uint32_t k = 0; k < RONDO_COST_MAX_SIZES; k++)
    m->sizes[k] = (uint32_t)rondo_fuzz_take(&in, 2);
  for (uint32_t i = 0; i < m->row_count; i++)
    take_row(&in, &file.rows[i]);
  for (int link = 0; link < RONDO_COST_LINKS; link++) {
    float latency_ns = (float)rondo_fuzz_take(&in, 1), message_ns = (float)rondo_fuzz_take(&in, 1);
    float byte_ns = (float)rondo_fuzz_take(&in, 1);
    m->alone[link] = (struct rondo_cost_terms){latency_ns, message_ns, byte_ns};
    m->shared[link] = (struct rondo_cost_line){message_ns, byte_ns};
  }
  read_entry(bytes, rondo_members_entry_write(&member, m, bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const readers[])(struct rondo_wire_reader *, struct rondo_wire_writer *) = {
      read_hello, read_member, read_loss, read_numbers};
  if (size == 0 || size > BYTES)
    return 0;
  uint8_t which = data[0] % 7;
  data++;
  size--;
  if (which == 4) {
    read_head(data, size);
    return 0;
  }
  if (which == 5) {
    read_model(data, size);
    return 0;
  }
  if (which == 6) {
    read_entry(data, (uint32_t)size);
    return 0;
  }
  struct rondo_wire_reader r = {data, size, 0};
  struct rondo_wire_writer w = {.bytes = written, .capacity = sizeof written};
  readers[which](&r, &w);
  check_same(&r, &w, data, size);
  return 0;
}
