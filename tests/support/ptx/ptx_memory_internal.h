// What the files of the memory share. ptx_memory_history.c keeps the writes of each location,
// ptx_memory_race.c the accesses that a later one could race with, ptx_memory_access.c performs
// loads, stores and updates, and ptx_memory.c has the agents and what orders them.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_INTERNAL_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_INTERNAL_H

#include "tests/explore/random.h"
#include "tests/support/ptx/ptx_memory.h"
#include "tests/support/ptx/ptx_memory_view.h"

// Writes are kept by granules of 16 bytes, the widest access. Words of one granule share a list;
// an access looks only at writes that overlap it. Bit i of a mask is byte i of the granule.
#define GRANULE_BYTES 16u

// What a release pattern makes visible, with the thread and the scope of its first operation.
struct release {
  struct ptx_view *view;
  uint32_t agent;
  enum ptx_scope scope;
};

// The release patterns that a write belongs to. Writes share it; it does not change.
struct releases {
  uint32_t references;
  uint32_t count;
  struct release items[];
};

struct write {
  uint64_t serial;
  uint8_t value[GRANULE_BYTES];
  uint16_t bytes; // mask of the access
  uint16_t live;  // those of them that can still be read
  uint32_t agent, lane, clock;
  enum ptx_order order;
  enum ptx_scope scope;
  bool is_update;
  uint64_t source; // of an update: the serial of the write that it has read; 0: the initial value
  struct release own;        // of the lane's last release operation on this location; or no view
  struct releases *releases; // or NULL
};

// Strong reads of a write, by lanes that did not know of it. An access that comes after one of them
// cannot read an older write.
struct sight {
  uint64_t serial; // of the write
  uint32_t agent, lanes, clock;
};

// Accesses of lanes of one agent at one clock, for races.
struct past {
  struct ptx_where where;
  uint32_t agent, lanes, clock;
  uint16_t bytes;
  enum ptx_order order;
  enum ptx_scope scope;
  bool is_write;
};

struct granule {
  uint64_t address;
  struct granule *next; // in its bucket
  uint8_t initial[GRANULE_BYTES];
  uint16_t initial_known; // bytes of `initial` that have been read from the process
  uint16_t initial_live;  // that can still be read by a load
  struct write *writes;   // in coherence order
  struct sight *sights;
  struct past *pasts;
  uint32_t write_count, sight_count, past_count;
  uint32_t write_capacity, sight_capacity, past_capacity;
};

// A strong read that a later fence, or acquire operation on the same bytes, makes an acquire
// pattern.
struct pending {
  uint64_t address;
  uint32_t bytes; // 0: reads of several locations
  struct release release;
};

#define WAITING_MAX 8u
struct lane {
  bool is_active; // accesses may follow
  struct ptx_view *view;
  struct ptx_view *released[3]; // by scope: what the last fence of that scope releases
  struct pending *pendings;
  uint32_t pending_count, pending_capacity;
  uint32_t waiting[WAITING_MAX]; // tickets of delayed loads
  uint32_t waiting_count;
};

struct agent {
  uint32_t device, block, lane_count, clock;
  struct lane *lanes;
};

// One access while it is performed. `view` and `clock` are those of its place in program order,
// which a delayed load has behind it.
struct operation {
  struct ptx_memory *m;
  struct ptx_access access;
  struct ptx_where where;
  struct granule *granule;
  struct ptx_view *view;
  uint32_t agent, lane, clock;
  uint16_t bytes; // mask
};

struct ticket {
  struct operation operation; // its view is held
  uint8_t value[GRANULE_BYTES];
  bool is_waiting;
  uint32_t next_free;
};

struct ptx_memory {
  struct ptx_memory_options options;
  struct random random;
  struct agent *agents;
  struct ptx_range *ranges; // by base
  struct ticket *tickets;
  struct release *fences; // by place and scope: what its fence.sc have made visible
  struct granule **buckets;
  struct granule *last; // the one found last
  uint64_t *accused;    // set of pairs of instructions; 0 is empty
  uint32_t agent_count, agent_capacity;
  uint32_t range_count, range_capacity, last_range;
  uint32_t ticket_count, ticket_capacity, free_ticket;
  uint32_t fence_count, fence_capacity;
  uint32_t bucket_count, granule_count;
  uint32_t accused_count, accused_capacity;
  uint64_t noted, noted_bytes; // what the process stores itself: ptx_memory_note_store
  uint64_t next_serial;
  uint64_t kept, sweep_at; // writes and pasts
  uint64_t digest;
};

// Makes room for one more element in a growing array.
#define RESERVE_ONE(array, count, capacity)                                                        \
  do {                                                                                             \
    if ((count) == (capacity)) {                                                                   \
      (capacity) = (capacity) ? 2 * (capacity) : 2;                                                \
      (array) = ptx_reallocate((array), (capacity) * sizeof *(array));                             \
    }                                                                                              \
  } while (0)

// Agents: ptx_memory.c

// Whether the two threads are in each other's scopes.
bool ptx_scopes_match(const struct ptx_memory *m, uint32_t one, enum ptx_scope one_scope,
                      uint32_t two, enum ptx_scope two_scope);
// Whether the two threads are in every scope alike.
bool ptx_places_equal(const struct ptx_memory *m, uint32_t one, uint32_t two);
// What the lane releases now: all that it knows, and what it did itself. The caller drops it.
struct ptx_view *ptx_lane_release(struct ptx_memory *m, uint32_t agent, uint32_t lane);
// Marks the lane as active and returns it.
struct lane *ptx_lane_use(struct ptx_memory *m, uint32_t agent, uint32_t lane);
// Gives up release patterns that the acquire pattern (of this scope, at this location, or of a
// fence where `address` is 0) synchronises with: they have become part of the lane's view.
void ptx_lane_acquire(struct ptx_memory *m, uint32_t agent, uint32_t lane, enum ptx_scope scope,
                      const struct ptx_access *at);
// Whether a choice departs from what an interleaving would give.
bool ptx_memory_departs(struct ptx_memory *m);

// Delayed loads: ptx_memory_access.c

// Performs the lane's delayed loads that overlap the bytes; all of them if `bytes` is 0.
void ptx_lane_resolve(struct ptx_memory *m, uint32_t agent, uint32_t lane, uint64_t address,
                      uint32_t bytes);

// Writes: ptx_memory_history.c

// The granule of an operation whose bytes may be accessed.
struct granule *ptx_granule_of(struct ptx_memory *m, uint64_t address, uint16_t bytes);
void ptx_granule_destroy(struct ptx_memory *m, struct granule *g);
// Destroys the granule at an address that is a multiple of GRANULE_BYTES, if there is one.
void ptx_granule_forget(struct ptx_memory *m, uint64_t address);
// Whether the operation comes after all accesses that these lanes made up to this clock.
bool ptx_operation_knows(const struct operation *op, uint32_t agent, uint32_t lanes,
                         uint32_t clock);
// Whether operation and write are morally strong.
bool ptx_operation_matches(const struct operation *op, const struct write *w);
// The index of the oldest write that the operation may read, or -1 for the initial value.
int64_t ptx_history_oldest(const struct operation *op);
// The index of the newest write up to `index` that overlaps the operation, or -1.
int64_t ptx_history_at(const struct operation *op, int64_t index);
// The bytes that the operation reads if it sees writes up to `index`.
void ptx_history_value(const struct operation *op, int64_t index, void *value);
// Whether a write of the operation may come directly before the write `index`.
bool ptx_history_allows(const struct operation *op, uint32_t index);
// Inserts a write of the operation before `index`. `made` has its `own` and `releases`, whose
// references go over, and what is said of updates.
void ptx_history_insert(const struct operation *op, uint32_t index, const void *value,
                        const struct write *made);
// Notes that the operation has read the write `index`.
void ptx_history_see(const struct operation *op, uint32_t index);
// Gives the writes that the process has made itself their values.
void ptx_history_take_noted(struct ptx_memory *m);
void ptx_releases_drop(struct releases *releases);
// Drops what no load can read any more and no access can race with, now and then.
void ptx_memory_sweep(struct ptx_memory *m);

// Races and bad accesses: ptx_memory_race.c

// Accuses the access if no range has it, or the range forbids it. Returns whether it may be made.
enum access_kind { ACCESS_LOAD, ACCESS_STORE, ACCESS_UPDATE };
bool ptx_access_check(const struct operation *op, enum access_kind kind);
// Accuses the operation of its races with earlier ones, and remembers it.
void ptx_race_check(const struct operation *op, bool is_write);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_INTERNAL_H
