// The memory of a scripted run: what each access may read under the memory model of PTX (section 8
// of the PTX ISA manual), chosen by a seed, and which accesses race.
//
//   create -> range … agent … begin -> load, store, update, fence, meet … end -> destroy
//
// The caller executes the threads of all devices and of the CPU in one host thread, in an order of
// its own, and passes every access here. The memory keeps the writes of each location in coherence
// order. A load returns a write that causality order does not hide from it, not always the newest
// one. A store may be placed before writes that it need not follow. So outcomes appear that
// no interleaving of the threads gives, and a seed replays them.
//
// An address is an address of this process. The bytes there always hold the last write in coherence
// order; the memory reads them when it meets a location for the first time.
//
// An agent is a warp, whose lanes are its threads, or a thread of the CPU, which has one lane.
//
// A run has at most 2^32 releases, fences and barriers of each agent.
//
// Not modelled: proxies, the non-coherent path (ld.global.nc), clusters, multimem. Where two writes
// race, PTX leaves their coherence order partial; here it is total.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The device of a thread of the CPU.
#define PTX_CPU UINT32_MAX
// In a range: the threads of every block.
#define PTX_ANY_BLOCK UINT32_MAX

// PTX_SC: of a fence, fence.sc. PTX has no such access, but C11 has. It is a fence.sc before a load
// that acquires, a store that releases or an update that does both, as CUDA C++ maps it. A volatile
// access of PTX is PTX_RELAXED and PTX_SYS.
enum ptx_order { PTX_WEAK, PTX_RELAXED, PTX_ACQUIRE, PTX_RELEASE, PTX_ACQ_REL, PTX_SC };
enum ptx_scope { PTX_CTA, PTX_GPU, PTX_SYS };

// The instruction that accesses, for accusations. `kernel` lives as long as the memory.
struct ptx_where {
  const char *kernel; // a thread of the CPU: what it calls itself
  uint32_t line;      // of the source (.loc); 0: unknown
  uint32_t text_line; // of the PTX text; for the CPU, the place in the program in bytes
  uint32_t block, thread;
};

struct ptx_access {
  uint64_t address; // a multiple of `bytes`
  uint32_t bytes; // 1, 2, 4 or 8; 16 only for .b128, because each element of a vector is an access
  enum ptx_order order;
  enum ptx_scope scope; // PTX_WEAK has none; a thread of the CPU always has PTX_SYS
  bool is_reduction;    // of an update: red, which never acquires
  // One of several that are made at once: a load reads the newest write, a store comes after all
  // others.
  bool is_whole;
  // Of an update that writes nothing, for C11's compare-and-swap. PTX_WEAK: it is `order`, as in
  // PTX.
  enum ptx_order order_of_failure;
};

// What an update does to the bytes that it reads.
struct ptx_update {
  // Replaces the bytes at `value` and returns true, or returns false to write nothing.
  bool (*apply)(void *arg, void *value);
  void *arg;
};

enum ptx_offence {
  PTX_RACE, // two accesses overlap, one writes, neither causality nor moral strength orders them
  PTX_MISALIGNED, // the address is not a multiple of the size
  PTX_OUTSIDE,    // no range has the bytes
  PTX_FORBIDDEN,  // a range has them, but not for this device, block or kind of access
};

// One side of an accusation.
struct ptx_party {
  struct ptx_where where;
  uint32_t device;
  uint64_t address;
  uint32_t bytes;
  enum ptx_order order;
  enum ptx_scope scope;
  bool is_write;
};

struct ptx_accusation {
  enum ptx_offence offence;
  struct ptx_party now;   // the access that was just made
  struct ptx_party other; // PTX_RACE: the earlier one
  const char *range;      // PTX_FORBIDDEN: the name of the range; else NULL
};

// Mistakes that the model makes on purpose, so that tests can show that they would find them.
enum ptx_memory_fault {
  PTX_FAULT_NONE,
  PTX_FAULT_NO_SCOPES,      // every scope includes every thread
  PTX_FAULT_NO_ACQUIRE,     // an acquire pattern orders nothing
  PTX_FAULT_NO_FENCE,       // a fence makes no pattern
  PTX_FAULT_NO_SC,          // fence.sc is fence.acq_rel
  PTX_FAULT_NO_COHERENCE,   // a read does not bound later reads
  PTX_FAULT_NO_SEQUENCE,    // an atom does not carry on the release pattern that it reads from
  PTX_FAULT_NOT_ATOMIC,     // a store may come between the read and the write of an atom
  PTX_FAULT_NO_MEETING,     // barriers order nothing
  PTX_FAULT_RED_ACQUIRES,   // red forms acquire patterns
  PTX_FAULT_ALWAYS_NEWEST,  // loads return the newest write
  PTX_FAULT_ALWAYS_LAST,    // stores go to the end of the coherence order
  PTX_FAULT_NEVER_LATER,    // loads are not delayed
  PTX_FAULT_WARP_RELEASES,  // a release of one lane covers the warp's other lanes
  PTX_FAULT_SIZES_IGNORED,  // strong accesses of different sizes do not race
  PTX_FAULT_READS_FORGOTTEN // races with earlier reads are not seen
};

struct ptx_memory_options {
  uint64_t seed;
  // In how many of 100 cases a choice departs from what an interleaving gives. 0: never.
  uint32_t adversity;
  // How many writes of one location are kept; the oldest go. At least 2. A weak store keeps only
  // one before it.
  uint32_t history;
  // Is called for each accusation, once for each pair of instructions. May be NULL.
  void (*accuse)(void *arg, const struct ptx_accusation *accusation);
  void *arg;
  enum ptx_memory_fault fault;
};
#define PTX_MEMORY_OPTIONS_INIT                                                                    \
  { .adversity = 50, .history = 8 }

// Memory that may be accessed. A device or the CPU may load, store or update it (atom, red) if its
// bit is set: bit d for device d, PTX_CPU_BIT for the CPU. Devices above 62 have no bit. Where PCIe
// lies between, an update of a device is not atomic to the CPU, so only the CPU is an updater.
#define PTX_CPU_BIT (UINT64_C(1) << 63)
struct ptx_range {
  uint64_t base, bytes;
  uint64_t readers, writers, updaters;
  uint32_t block;   // the only block that may access it, for shared memory; else PTX_ANY_BLOCK
  const char *name; // for accusations; lives as long as the range
};

// Lanes of one agent: bit i is lane i.
struct ptx_lanes {
  uint32_t agent, lanes;
};

struct ptx_memory;

// Aborts the process if no memory is left, as all calls here do. Destroy with ptx_memory_destroy.
struct ptx_memory *ptx_memory_create(const struct ptx_memory_options *options);
void ptx_memory_destroy(struct ptx_memory *m);

// Adds a range. It must not overlap another one. Without any range every address may be accessed.
// Returns RONDO_SUCCESS, or RONDO_ERR_INVALID for an overlap or a range of no bytes.
int ptx_memory_range(struct ptx_memory *m, const struct ptx_range *range);
// Removes the range that begins at `base`, and forgets all accesses to it: the memory was freed.
// Returns RONDO_SUCCESS, or RONDO_ERR_INVALID if there is none.
int ptx_memory_remove_range(struct ptx_memory *m, uint64_t base);
// Whether a range has some of these bytes.
bool ptx_memory_has_range(const struct ptx_memory *m, uint64_t address, uint64_t bytes);
// Forgets all accesses to these bytes. What this process has written there itself, past the memory,
// counts as the initial value. No load of these bytes may be delayed.
void ptx_memory_forget(struct ptx_memory *m, uint64_t base, uint64_t bytes);

// Adds an agent and returns its number. Two blocks of one device that live at once have different
// numbers, also if their kernels differ. `device` PTX_CPU: a thread of the CPU; `block` is 0 and
// `lane_count` is 1. The agent knows nothing yet: see ptx_memory_begin.
uint32_t ptx_memory_agent(struct ptx_memory *m, uint32_t device, uint32_t block,
                          uint32_t lane_count);

// Writes the bytes that are read to `value`. A bad access is accused and reads zeros.
void ptx_memory_load(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                     const struct ptx_access *access, void *value, const struct ptx_where *where);
// A load whose value is not needed yet. Returns a ticket for ptx_memory_resolve, which must be
// called once. The value is chosen there, or before the lane's next release, fence, barrier or
// access to the same bytes, or now: the seed decides. So a load may see what its thread's later
// stores lead to (load buffering).
uint32_t ptx_memory_load_later(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                               const struct ptx_access *access, const struct ptx_where *where);
void ptx_memory_resolve(struct ptx_memory *m, uint32_t ticket, void *value);
// A bad access is accused and writes nothing.
void ptx_memory_store(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                      const struct ptx_access *access, const void *value,
                      const struct ptx_where *where);
// A weak store that the process makes itself, with an instruction directly after this call: see
// ptx_hooks.h. The memory takes the bytes that are there at its next access.
void ptx_memory_note_store(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                           const struct ptx_access *access, const struct ptx_where *where);
// atom or red. Calls `update` once, for the bytes that are read; nothing comes between the read and
// the write. A bad access is accused and does not call it.
void ptx_memory_update(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                       const struct ptx_access *access, const struct ptx_update *update,
                       const struct ptx_where *where);
// `order`: PTX_ACQUIRE, PTX_RELEASE, PTX_ACQ_REL or PTX_SC.
void ptx_memory_fence(struct ptx_memory *m, uint32_t agent, uint32_t lane, enum ptx_order order,
                      enum ptx_scope scope);
// A barrier: all that these lanes did before comes before all that they do next. Agents are named
// once each.
void ptx_memory_meet(struct ptx_memory *m, const struct ptx_lanes *participants, uint32_t count);
// A launch: all that `from_agent` did comes before all that `agent` does next. So it also serves
// for a lock that `from_agent` has given up and `agent` takes. An agent that has ended may begin
// again, if `from_agent` knows of its end.
void ptx_memory_begin(struct ptx_memory *m, uint32_t from_agent, uint32_t agent);
// A completion: all that `agent` did comes before all that `to_agent` does next. While agents that
// have ended are not ended here, the memory cannot drop what they may still read.
void ptx_memory_end(struct ptx_memory *m, uint32_t agent, uint32_t to_agent);

// Writes one line, without a newline, that names both sides.
void ptx_accusation_text(const struct ptx_accusation *accusation, char *text, size_t bytes);

// How many accusations there were, each pair of instructions counted once.
uint64_t ptx_memory_accusations(const struct ptx_memory *m);
// A number that depends on all loads, stores and updates so far: who made them, in which order, and
// which values they read and wrote.
uint64_t ptx_memory_digest(const struct ptx_memory *m);
// How many writes and accesses the memory keeps.
uint64_t ptx_memory_kept(const struct ptx_memory *m);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_H
