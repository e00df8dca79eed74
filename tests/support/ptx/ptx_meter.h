// The meter of the PTX machine: counts what blocks do, and finds the longest chain of accesses that
// depend on each other and leave the device. docs/ptx-machine.md says what counts as what.
//
//   ptx_meter_create -> ptx_options.meter -> ptx_meter_begin -> ... -> ptx_meter_read ...
//
// A window begins with ptx_meter_begin and lasts until the next one. Blocks that run meanwhile
// belong to the window. Only live runs that are not checked are metered.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_METER_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_METER_H

#include <stdint.h>

#define PTX_METER_DEVICES 8u
#define PTX_METER_ROLES 3u // the first warp of a block; the others; of three or more the last
#define PTX_METER_OTHERS 1u
#define PTX_METER_LAST 2u

enum ptx_at { PTX_AT_OWN, PTX_AT_SHARED, PTX_AT_PEER, PTX_AT_HOST, PTX_AT_COUNT };
enum ptx_what { PTX_A_LOAD, PTX_A_STORE, PTX_AN_UPDATE, PTX_WHAT_COUNT };

// Links of the longest chain.
struct ptx_chain {
  uint32_t peer;       // accesses of memory of peers
  uint32_t host_loads; // loads of memory of the host
  uint32_t all;        // accesses of either
  uint32_t fences;     // and releases of system scope, that have stores to wait for
};

struct ptx_counts {
  uint64_t lane_instructions; // of lanes
  uint64_t warp_instructions; // one for all lanes that execute it together
  uint64_t fences[3];         // of lanes, by enum ptx_scope
  // Stores and updates with release order outside of shared memory: a GPU executes a fence for
  // each.
  uint64_t releases[3];
  uint64_t accesses[PTX_AT_COUNT][PTX_WHAT_COUNT]; // of lanes: a vector is one
  uint64_t bytes[PTX_AT_COUNT][PTX_WHAT_COUNT];
  // Loads outside of shared memory that found what the same thread had found there with the same
  // instruction, while it had passed no barrier and found no word changed since.
  uint64_t polls[PTX_AT_COUNT];
  uint64_t queue_polls; // of these, at memory that ptx_meter_set_queue has named
  uint64_t barriers;    // that opened; counted for the first warp
  // The most bytes that a warp had loaded, outside of shared memory, and not yet used: a thread
  // goes on after a load until an instruction reads its result.
  uint64_t in_flight;
  struct ptx_chain chain;
};

struct ptx_meter;
struct ptx_block;
struct ptx_warp;
struct ptx_instr;

// Null: no memory.
struct ptx_meter *ptx_meter_create(void);
void ptx_meter_destroy(struct ptx_meter *meter);
// All counts are 0, and all chains begin anew.
void ptx_meter_begin(struct ptx_meter *meter);
// Names memory of device `device`'s submission queue, whose polls in vain count apart, too. Before
// a window.
void ptx_meter_set_queue(struct ptx_meter *meter, uint32_t device, uint64_t begin, uint64_t bytes);
// What the warps of this role of all blocks of a device did in this window until their last turn.
void ptx_meter_read(struct ptx_meter *meter, uint32_t device, uint32_t role,
                    struct ptx_counts *counts);
// Instructions of the kernel that were executed in this window, each counted once; `total`: those
// that it has. The window must have blocks of one kernel.
uint32_t ptx_meter_touched(struct ptx_meter *meter, uint32_t *total);

// For the machine.
int ptx_meter_attach(struct ptx_block *block); // -1: no memory
void ptx_meter_detach(struct ptx_block *block);
void ptx_meter_turn(struct ptx_warp *warp); // before a turn of the warp
void ptx_meter_before(struct ptx_warp *warp, const struct ptx_instr *instr);
void ptx_meter_after(struct ptx_warp *warp, const struct ptx_instr *instr);
void ptx_meter_flush(struct ptx_warp *warp);                  // after a turn
void ptx_meter_meet(struct ptx_block *block, uint32_t warps); // a barrier opens for these

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_METER_H
