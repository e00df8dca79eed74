#include "runtime/job/members_entry.h"

#include <stdio.h>

#include "base/digest.h"
#include "daemon/plan/build.h"

#define RUN_BYTES 15u     // of ranks with one place, at most
#define PLACE_BYTES 4096u // of an entry without its cost model, at most

// ------------------------------------------------------------------ cost model ---

#define MODEL_HEAD_BYTES (8u + 4u + 4u)
#define MODEL_END_BYTES 8u
#define MODEL_BYTES                                                                                \
  (MODEL_HEAD_BYTES + 4u * (RONDO_COST_MAX_RANKS + RONDO_COST_MAX_SIZES) +                         \
   20u * RONDO_COST_LINKS +                                                                        \
   RONDO_COST_MAX_ROWS * (3u + 4u * RONDO_COST_MAX_RANKS * RONDO_COST_MAX_SIZES) +                 \
   MODEL_END_BYTES)
#define MODEL_MOST_NS 1e12f // 1,000 s

_Static_assert(PLACE_BYTES + MODEL_BYTES <= RONDO_ROSTER_ENTRY_BYTES, "all models fit");
_Static_assert(sizeof(float) == sizeof(uint32_t), "sent between processes");

static uint64_t model_checksum(const uint8_t *bytes, size_t size) {
  return rondo_digest_bytes(UINT64_C(0x6d6f64656c), bytes, size); // a number that names this use
}

static void put_ns(struct rondo_wire_writer *w, float ns) {
  uint32_t bits;
  memcpy(&bits, &ns, sizeof bits);
  rondo_wire_put_u32(w, bits);
}

static void put_line(struct rondo_wire_writer *w, const struct rondo_cost_line *line) {
  put_ns(w, line->message_ns);
  put_ns(w, line->byte_ns);
}

static void put_terms(struct rondo_wire_writer *w, const struct rondo_cost_terms *terms) {
  put_ns(w, terms->latency_ns);
  put_ns(w, terms->message_ns);
  put_ns(w, terms->byte_ns);
}

static void put_row(struct rondo_wire_writer *w, const struct rondo_cost_model *m,
                    const struct rondo_cost_row *row) {
  rondo_wire_put_u8(w, row->link);
  rondo_wire_put_u8(w, row->kind);
  rondo_wire_put_u8(w, row->algorithm);
  for (uint32_t i = 0; i < m->rank_points; i++)
    for (uint32_t k = 0; k < m->size_points; k++)
      put_ns(w, row->message_ns[i][k]);
}

// Returns its size.
static size_t model_write(const struct rondo_cost_model *m, uint8_t bytes[MODEL_BYTES]) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = MODEL_BYTES};
  rondo_wire_put_u64(&w, m->digest);
  rondo_wire_put_u32(&w, m->cores);
  rondo_wire_put_u8(&w, (uint8_t)m->rank_points);
  rondo_wire_put_u8(&w, (uint8_t)m->size_points);
  rondo_wire_put_u16(&w, (uint16_t)m->row_count);
  for (uint32_t i = 0; i < m->rank_points; i++)
    rondo_wire_put_u32(&w, m->ranks[i]);
  for (uint32_t k = 0; k < m->size_points; k++)
    rondo_wire_put_u32(&w, m->sizes[k]);
  for (int link = 0; link < RONDO_COST_LINKS; link++) {
    put_terms(&w, &m->alone[link]);
    put_line(&w, &m->shared[link]);
  }
  for (uint32_t i = 0; i < m->row_count; i++)
    put_row(&w, m, &m->rows[i]);
  rondo_wire_put_u64(&w, model_checksum(bytes, w.size));
  return w.size;
}

static float get_ns(struct rondo_wire_reader *r) {
  uint32_t bits = rondo_wire_get_u32(r);
  float ns;
  memcpy(&ns, &bits, sizeof ns);
  if (!(ns > 0 && ns <= MODEL_MOST_NS)) // also no number at all
    r->bad = 1;
  return ns;
}

static void get_points(struct rondo_wire_reader *r, uint32_t *points, uint32_t count) {
  for (uint32_t i = 0; i < count && !r->bad; i++) {
    points[i] = rondo_wire_get_u32(r);
    if (points[i] <= (i ? points[i - 1] : 0))
      r->bad = 1;
  }
}

static void get_line(struct rondo_wire_reader *r, struct rondo_cost_line *line) {
  line->message_ns = get_ns(r);
  line->byte_ns = get_ns(r);
}

static void get_terms(struct rondo_wire_reader *r, struct rondo_cost_terms *terms) {
  terms->latency_ns = get_ns(r);
  terms->message_ns = get_ns(r);
  terms->byte_ns = get_ns(r);
}

static void get_row(struct rondo_wire_reader *r, const struct rondo_cost_model *m,
                    struct rondo_cost_row *row) {
  row->link = rondo_wire_get_u8(r);
  row->kind = rondo_wire_get_u8(r);
  row->algorithm = rondo_wire_get_u8(r);
  if (row->link >= RONDO_COST_LINKS || !rondo_plan_exists(row->kind, row->algorithm, 2))
    r->bad = 1;
  for (uint32_t i = 0; i < m->rank_points && !r->bad; i++)
    for (uint32_t k = 0; k < m->size_points && !r->bad; k++)
      row->message_ns[i][k] = get_ns(r);
}

// Returns false if a number is out of range.
static bool model_read(struct rondo_wire_reader *r, struct rondo_cost_file *file) {
  struct rondo_cost_model *m = &file->model;
  m->digest = rondo_wire_get_u64(r);
  m->cores = rondo_wire_get_u32(r);
  m->rank_points = rondo_wire_get_u8(r);
  m->size_points = rondo_wire_get_u8(r);
  m->row_count = rondo_wire_get_u16(r);
  m->rows = file->rows;
  if (m->cores == 0 || m->rank_points == 0 || m->rank_points > RONDO_COST_MAX_RANKS ||
      m->size_points == 0 || m->size_points > RONDO_COST_MAX_SIZES ||
      m->row_count > RONDO_COST_MAX_ROWS)
    return false;
  get_points(r, m->ranks, m->rank_points);
  get_points(r, m->sizes, m->size_points);
  for (int link = 0; link < RONDO_COST_LINKS; link++) {
    get_terms(r, &m->alone[link]);
    get_line(r, &m->shared[link]);
  }
  for (uint32_t i = 0; i < m->row_count && !r->bad; i++)
    get_row(r, m, &file->rows[i]);
  return rondo_wire_is_done(r);
}

// Takes the bytes of the cost model, of which there may be none, off the reader.
static struct rondo_wire_reader entry_take_model(struct rondo_wire_reader *r) {
  uint32_t size = rondo_wire_get_u32(r);
  struct rondo_wire_reader model = {r->bytes, size, 0};
  if (size > r->size || size > MODEL_BYTES)
    r->bad = 1;
  if (r->bad)
    return (struct rondo_wire_reader){0};
  r->bytes += size;
  r->size -= size;
  return model;
}

static bool model_refuse(char *why, const char *text) {
  (void)snprintf(why, RONDO_COST_WHY_BYTES, "%s", text);
  return false;
}

bool rondo_members_entry_model(const uint8_t *bytes, uint32_t size, struct rondo_cost_file **file,
                               char *why) {
  struct rondo_wire_reader r = {bytes, size, 0};
  struct rondo_wire_member m;
  rondo_wire_get_member(&r, &m, NULL);
  rondo_wire_member_fini(&m);
  *file = NULL;
  if (r.bad)
    return true; // rondo_members_entry_topology refuses it
  struct rondo_wire_reader model = entry_take_model(&r);
  if (r.bad)
    return model_refuse(why, "is torn");
  if (model.size == 0)
    return true;
  size_t body = model.size > MODEL_END_BYTES ? model.size - MODEL_END_BYTES : 0;
  struct rondo_wire_reader end = {model.bytes + body, model.size - body, 0};
  if (rondo_wire_get_u64(&end) != model_checksum(model.bytes, body) || end.bad)
    return model_refuse(why, "is torn: its checksum is wrong");
  *file = calloc(1, sizeof **file);
  model.size = body;
  if (*file && model_read(&model, *file))
    return true;
  bool has_memory = *file != NULL;
  free(*file);
  *file = NULL;
  return model_refuse(why, has_memory ? "holds a number that makes no sense" : "finds no memory");
}

// --------------------------------------------------------------------- entries ---

uint32_t rondo_members_entry_write(const struct rondo_wire_member *member,
                                   const struct rondo_cost_model *model,
                                   uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES]) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = PLACE_BYTES};
  struct rondo_wire_member alone = *member;
  uint8_t encoded[MODEL_BYTES];
  size_t model_bytes = model ? model_write(model, encoded) : 0;
  alone.rank_count = 0;
  rondo_wire_put_member(&w, &alone, NULL);
  rondo_wire_put_u32(&w, (uint32_t)model_bytes);
  w.capacity += model_bytes;
  rondo_wire_put(&w, encoded, model_bytes);
  for (uint32_t i = 0; i < member->rank_count && w.capacity - w.size >= RUN_BYTES && !w.full;) {
    uint32_t end = i + 1;
    while (end < member->rank_count &&
           memcmp(&member->places[end], &member->places[i], sizeof member->places[i]) == 0)
      end++;
    rondo_wire_put_u32(&w, end - i);
    rondo_wire_put_place(&w, &member->places[i]);
    i = end;
  }
  return w.full ? 0 : (uint32_t)w.size;
}

uint32_t rondo_members_entry_ranges(const struct rondo_wire_member *member,
                                    struct rondo_rank_range *ranges) {
  const uint32_t *ranks = member->ranks;
  uint32_t count = 0;
  for (uint32_t i = 0; i < member->rank_count;) {
    uint32_t stride = i + 1 < member->rank_count ? ranks[i + 1] - ranks[i] : 1;
    uint32_t end = i + 1;
    while (end < member->rank_count && ranks[end] - ranks[end - 1] == stride)
      end++;
    ranges[count++] = (struct rondo_rank_range){ranks[i], end - i, stride};
    i = end;
  }
  return count;
}

// Reads the places that follow a process. Ranks without one have an unknown place.
static bool entry_read_places(struct rondo_wire_reader *r, struct rondo_wire_member *m) {
  struct rondo_topology_place place = {.node = -1};
  uint32_t left = 0;
  m->places = malloc((m->rank_count + 1) * sizeof *m->places);
  for (uint32_t i = 0; i < m->rank_count && m->places; i++) {
    if (!left && r->size) {
      left = rondo_wire_get_u32(r);
      rondo_wire_get_place(r, &place);
      r->bad |= left == 0;
    } else if (!left) {
      place = (struct rondo_topology_place){.node = -1};
    }
    left -= left != 0;
    m->places[i] = place;
  }
  return m->places && !left && rondo_wire_is_done(r);
}

static int rank_compare(const void *a, const void *b) {
  const uint32_t *x = a;
  const uint32_t *y = b;
  return *x < *y ? -1 : *x > *y;
}

// Lists the ranks of an entry.
static bool entry_read_ranks(const struct rondo_roster_entry *entry, struct rondo_wire_member *m) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < entry->range_count; i++)
    count += rondo_roster_range(entry, i).count;
  m->ranks = malloc((count + 1) * sizeof *m->ranks);
  for (uint32_t i = 0; i < entry->range_count && m->ranks; i++) {
    struct rondo_rank_range range = rondo_roster_range(entry, i);
    for (uint32_t k = 0; k < range.count; k++)
      m->ranks[m->rank_count++] = range.first + k * range.stride;
  }
  if (m->ranks)
    qsort(m->ranks, m->rank_count, sizeof *m->ranks, rank_compare);
  return m->ranks != NULL;
}

static bool topology_add_entry(struct rondo_topology *topology,
                               const struct rondo_roster_entry *entry) {
  struct rondo_wire_reader r = {entry->bytes, entry->size, 0};
  struct rondo_wire_member m;
  rondo_wire_get_member(&r, &m, NULL);
  (void)entry_take_model(&r);
  bool is_valid = !r.bad && m.rank_count == 0 && entry_read_ranks(entry, &m) &&
                  entry_read_places(&r, &m) && rondo_topology_add(topology, &m);
  rondo_wire_member_fini(&m);
  return is_valid;
}

struct rondo_topology *rondo_members_entry_topology(const struct rondo_roster *roster) {
  struct rondo_topology *topology =
      rondo_topology_create(roster->rank_count, roster->process_count);
  for (uint32_t i = 0; i < roster->process_count && topology; i++) {
    struct rondo_roster_entry entry;
    rondo_roster_entry_get(roster, i, &entry);
    if (topology_add_entry(topology, &entry))
      continue;
    rondo_topology_destroy(topology);
    return NULL;
  }
  return topology;
}

void rondo_members_entry_describe(const uint8_t *bytes, uint32_t size, char *text,
                                  size_t capacity) {
  struct rondo_wire_reader r = {bytes, size, 0};
  struct rondo_wire_member m;
  rondo_wire_get_member(&r, &m, NULL);
  (void)snprintf(text, capacity, "%s, pid %u", r.bad ? "a malformed host" : m.host, m.pid);
  rondo_wire_member_fini(&m);
}
