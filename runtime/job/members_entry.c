#include "runtime/job/members_entry.h"

#include <stdio.h>

#define RUN_BYTES 15u // of ranks with one place, at most

uint32_t rondo_members_entry_write(const struct rondo_wire_member *member,
                                   uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES]) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = RONDO_ROSTER_ENTRY_BYTES};
  struct rondo_wire_member alone = *member;
  alone.rank_count = 0;
  rondo_wire_put_member(&w, &alone, NULL);
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
