#include "runtime/job/roster.h"

#include "base/digest.h"
#include "runtime/net/wire.h"

#define RESTARTABLE 1u
#define HEAD_BYTES 13u
#define ABSENCE_BYTES 9u
#define RANGE_BYTES 12u
#define ENTRY_BYTES 16u // without ranges and the shell's bytes

// -------------------------------------------------------------------- writing ---

static uint32_t absence_count_runs(const uint8_t *absence, uint32_t rank_count) {
  uint32_t runs = 0;
  for (uint32_t rank = 0; rank < rank_count; rank++)
    runs += absence[rank] && (rank == 0 || absence[rank - 1] != absence[rank]);
  return runs;
}

static void absence_write(struct rondo_wire_writer *w, const uint8_t *absence,
                          uint32_t rank_count) {
  rondo_wire_put_u32(w, absence_count_runs(absence, rank_count));
  for (uint32_t rank = 0; rank < rank_count;) {
    uint32_t end = rank + 1;
    while (end < rank_count && absence[end] == absence[rank])
      end++;
    if (absence[rank]) {
      rondo_wire_put_u32(w, rank);
      rondo_wire_put_u32(w, end - rank);
      rondo_wire_put_u8(w, absence[rank]);
    }
    rank = end;
  }
}

static void source_write(struct rondo_wire_writer *w, const struct rondo_roster_source *s) {
  rondo_wire_put_u64(w, s->machine);
  rondo_wire_put_u32(w, s->range_count);
  for (uint32_t i = 0; i < s->range_count; i++) {
    rondo_wire_put_u32(w, s->ranges[i].first);
    rondo_wire_put_u32(w, s->ranges[i].count);
    rondo_wire_put_u32(w, s->ranges[i].stride);
  }
  rondo_wire_put_u32(w, s->size);
  rondo_wire_put(w, s->bytes, s->size);
}

struct rondo_shared_bytes *rondo_roster_encode(const struct rondo_roster_source *sources,
                                               uint32_t process_count, uint32_t rank_count,
                                               const uint8_t *absence, bool is_restartable) {
  uint64_t size = HEAD_BYTES + (uint64_t)ABSENCE_BYTES * absence_count_runs(absence, rank_count);
  for (uint32_t i = 0; i < process_count; i++)
    size += ENTRY_BYTES + (uint64_t)RANGE_BYTES * sources[i].range_count + sources[i].size;
  if (size > RONDO_ROSTER_MAX_BYTES)
    return NULL;
  struct rondo_shared_bytes *bytes = rondo_shared_bytes_create(NULL, (uint32_t)size);
  if (!bytes)
    return NULL;
  struct rondo_wire_writer w = {.bytes = bytes->bytes, .capacity = size};
  rondo_wire_put_u8(&w, is_restartable ? RESTARTABLE : 0);
  rondo_wire_put_u32(&w, rank_count);
  rondo_wire_put_u32(&w, process_count);
  absence_write(&w, absence, rank_count);
  for (uint32_t i = 0; i < process_count; i++)
    source_write(&w, &sources[i]);
  return bytes;
}

// -------------------------------------------------------------------- reading ---

static void roster_read_absence(struct rondo_roster *roster, struct rondo_wire_reader *r) {
  uint32_t runs = rondo_wire_get_u32(r);
  for (uint32_t i = 0; i < runs && !r->bad; i++) {
    uint32_t first = rondo_wire_get_u32(r);
    uint32_t count = rondo_wire_get_u32(r);
    uint8_t reason = rondo_wire_get_u8(r);
    if (first >= roster->rank_count || count == 0 || count > roster->rank_count - first ||
        (reason != RONDO_ABSENT_MISSING && reason != RONDO_ABSENT_LEFT) || roster->absence[first])
      r->bad = 1;
    if (!r->bad)
      memset(roster->absence + first, reason, count);
  }
}

// Notes that the ranks of a range live in `process`; bad if one is taken or absent.
static void roster_read_range(struct rondo_roster *roster, uint32_t process,
                              struct rondo_wire_reader *r, uint32_t *lowest) {
  struct rondo_rank_range range;
  range.first = rondo_wire_get_u32(r);
  range.count = rondo_wire_get_u32(r);
  range.stride = rondo_wire_get_u32(r);
  if (range.first >= roster->rank_count || range.count == 0 || range.count > roster->rank_count ||
      range.stride == 0 || range.stride > roster->rank_count)
    r->bad = 1;
  for (uint32_t i = 0; i < range.count && !r->bad; i++) {
    uint64_t rank = range.first + (uint64_t)i * range.stride;
    if (rank >= roster->rank_count || roster->absence[rank] ||
        roster->process_of[rank] != RONDO_ROSTER_NOBODY)
      r->bad = 1;
    else
      roster->process_of[rank] = process;
  }
  if (range.first < *lowest)
    *lowest = range.first;
}

// Reads a process. `after`: the lowest rank of the process before, or -1.
static int64_t roster_read_entry(struct rondo_roster *roster, uint32_t process, int64_t after,
                                 struct rondo_wire_reader *r) {
  uint32_t lowest = UINT32_MAX;
  roster->offsets[process] = (uint32_t)(r->bytes - roster->bytes->bytes);
  (void)rondo_wire_get_u64(r);
  uint32_t ranges = rondo_wire_get_u32(r);
  if (ranges == 0 || ranges > r->size / RANGE_BYTES)
    r->bad = 1;
  for (uint32_t i = 0; i < ranges && !r->bad; i++)
    roster_read_range(roster, process, r, &lowest);
  uint32_t size = rondo_wire_get_u32(r);
  if (r->bad || size > RONDO_ROSTER_ENTRY_BYTES || size > r->size || lowest <= after) {
    r->bad = 1;
    return after;
  }
  r->bytes += size;
  r->size -= size;
  return lowest;
}

struct machine {
  uint64_t machine;
  uint32_t process;
};

static int machine_compare(const void *a, const void *b) {
  const struct machine *x = a;
  const struct machine *y = b;
  if (x->machine != y->machine)
    return x->machine < y->machine ? -1 : 1;
  return x->process < y->process ? -1 : 1;
}

// Numbers the machines. False without memory.
static bool roster_number_machines(struct rondo_roster *roster) {
  struct machine *machines = malloc((size_t)roster->process_count * sizeof *machines);
  if (!machines)
    return false;
  for (uint32_t i = 0; i < roster->process_count; i++) {
    struct rondo_roster_entry entry;
    rondo_roster_entry_get(roster, i, &entry);
    machines[i] = (struct machine){entry.machine, i};
  }
  qsort(machines, roster->process_count, sizeof *machines, machine_compare);
  for (uint32_t i = 0; i < roster->process_count; i++) {
    if (i == 0 || machines[i].machine != machines[i - 1].machine)
      roster->machine_count++;
    roster->machine_of[machines[i].process] = roster->machine_count - 1;
  }
  free(machines);
  return true;
}

static bool roster_allocate(struct rondo_roster *roster) {
  size_t processes = roster->process_count;
  size_t ranks = roster->rank_count;
  roster->offsets = calloc(processes, sizeof *roster->offsets);
  roster->machine_of = malloc(processes * sizeof *roster->machine_of);
  roster->process_of = malloc(ranks * sizeof *roster->process_of);
  roster->absence = calloc(ranks, 1);
  if (!roster->offsets || !roster->machine_of || !roster->process_of || !roster->absence)
    return false;
  memset(roster->process_of, 0xff, ranks * sizeof *roster->process_of);
  return true;
}

// True if every rank is in a process or absent.
static bool roster_is_whole(const struct rondo_roster *roster) {
  for (uint32_t rank = 0; rank < roster->rank_count; rank++)
    if ((roster->process_of[rank] == RONDO_ROSTER_NOBODY) != (roster->absence[rank] != 0))
      return false;
  return true;
}

static bool roster_read(struct rondo_roster *roster) {
  struct rondo_wire_reader r = {roster->bytes->bytes, roster->bytes->size, 0};
  uint8_t flags = rondo_wire_get_u8(&r);
  int64_t lowest = -1;
  roster->is_restartable = flags & RESTARTABLE;
  roster->rank_count = rondo_wire_get_u32(&r);
  roster->process_count = rondo_wire_get_u32(&r);
  if (r.bad || flags > RESTARTABLE || roster->rank_count == 0 ||
      roster->rank_count > RONDO_MAX_RANKS || roster->process_count == 0 ||
      roster->process_count > roster->rank_count || !roster_allocate(roster))
    return false;
  roster_read_absence(roster, &r);
  for (uint32_t i = 0; i < roster->process_count && !r.bad; i++)
    lowest = roster_read_entry(roster, i, lowest, &r);
  return rondo_wire_is_done(&r) && roster_is_whole(roster) && roster_number_machines(roster);
}

struct rondo_roster *rondo_roster_decode(struct rondo_shared_bytes *bytes) {
  struct rondo_roster *roster = calloc(1, sizeof *roster);
  if (!roster)
    return NULL;
  roster->refs = 1;
  roster->bytes = rondo_shared_bytes_get(bytes);
  roster->digest = rondo_digest_bytes(0, bytes->bytes, bytes->size);
  if (roster_read(roster))
    return roster;
  rondo_roster_put(roster);
  return NULL;
}

struct rondo_roster *rondo_roster_get(struct rondo_roster *roster) {
  roster->refs++;
  return roster;
}

void rondo_roster_put(struct rondo_roster *roster) {
  if (!roster || --roster->refs)
    return;
  rondo_shared_bytes_put(roster->bytes);
  for (uint32_t i = 0; i < roster->part_count; i++)
    rondo_shared_bytes_put(roster->parts[i]);
  free(roster->parts);
  free(roster->offsets);
  free(roster->machine_of);
  free(roster->process_of);
  free(roster->absence);
  free(roster);
}

void rondo_roster_entry_get(const struct rondo_roster *roster, uint32_t process,
                            struct rondo_roster_entry *entry) {
  struct rondo_wire_reader r = {roster->bytes->bytes + roster->offsets[process],
                                roster->bytes->size - roster->offsets[process], 0};
  entry->machine = rondo_wire_get_u64(&r);
  entry->range_count = rondo_wire_get_u32(&r);
  entry->ranges = r.bytes;
  r.bytes += (size_t)RANGE_BYTES * entry->range_count;
  r.size -= (size_t)RANGE_BYTES * entry->range_count;
  entry->size = rondo_wire_get_u32(&r);
  entry->bytes = r.bytes;
}

struct rondo_rank_range rondo_roster_range(const struct rondo_roster_entry *entry, uint32_t i) {
  struct rondo_wire_reader r = {entry->ranges + (size_t)RANGE_BYTES * i, RANGE_BYTES, 0};
  struct rondo_rank_range range;
  range.first = rondo_wire_get_u32(&r);
  range.count = rondo_wire_get_u32(&r);
  range.stride = rondo_wire_get_u32(&r);
  return range;
}
