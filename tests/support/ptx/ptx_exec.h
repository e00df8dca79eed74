// Shared by the parts of the PTX machine: blocks, warps and the handlers of instructions.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_EXEC_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_EXEC_H

#include "tests/support/ptx/ptx_machine.h"

#define PTX_BARRIERS 16u
#define PTX_SPANS 16u
#define PTX_SLOT_BYTES 64u // registers lie at multiples of it
#define PTX_ALL_LANES UINT32_MAX

// Why a group of lanes does not go on.
enum ptx_stop {
  PTX_GOES_ON,
  PTX_TURN,  // another group may be due: lanes parted, or met others, or the budget is spent
  PTX_WAITS, // at a barrier
  PTX_SLEEPS,
  PTX_ENDED,
  PTX_ACCUSED
};

// A load of a scripted run whose value is not chosen yet.
struct ptx_pending {
  uint32_t ticket, r; // `r`: the register that waits for it
  uint8_t lane, bytes, register_bytes, is_signed;
};
#define PTX_MAX_PENDING 256u // of a warp; further loads choose at once

// The lanes of a warp. The group that runs is `mask` at `pc`; the others are at their own counters.
struct ptx_warp {
  uint8_t *base[2]; // registers; constants
  uint32_t mask, pc;
  uint32_t merge_pc; // least counter of a lane that could run and is not in the group
  enum ptx_stop stop;
  int64_t budget;
  uint64_t steps;      // instructions of lanes
  uint64_t idle_steps; // instructions since it last did what others may see
  uint32_t live;       // lanes that have not ended
  uint32_t waiting;    // lanes at a barrier
  uint32_t sleeping;   // lanes that pause
  uint32_t lane_pc[PTX_WARP];
  uint64_t lane_wake_ns[PTX_WARP]; // of a lane that pauses: when it goes on
  uint8_t lane_barrier[PTX_WARP];
  uint32_t index; // in the block
  uint32_t last;  // counter of the group that ran last, where its budget was spent
  uint32_t agent; // of launch.memory
  struct ptx_block *block;
  struct ptx_pending *pending; // scripted mode
  uint32_t pending_count;
  uint32_t *unset; // checked: a mask a slot of PTX_SLOT_BYTES: lanes whose register is not set
};

struct ptx_barrier {
  uint32_t expected; // threads
  uint32_t arrived;  // warps, as a mask
  bool counts_left;  // expects all warps that have not ended
  bool is_aligned;
};

struct ptx_block {
  struct ptx_launch launch;
  uint32_t index;
  uint32_t warp_count;
  uint32_t turn; // the warp that runs next
  struct ptx_warp *warps;
  struct ptx_barrier barriers[PTX_BARRIERS];
  uint8_t *shared; // what has the address PTX_SHARED_BASE
  uint32_t shared_bytes;
  uint8_t *shared_unset; // checked: 1: the byte was never written
  uint8_t *params;
  struct ptx_span spans[PTX_SPANS];
  uint32_t spans_version;
  uint64_t random; // state of the generator
  bool has_failed;
  struct ptx_block_meter *meter; // null: not metered
};

static inline void *ptx_operand(const struct ptx_warp *w, uint32_t r) {
  return w->base[r >> 31] + (r & ~PTX_CONSTANT);
}

// The value that lane `lane` has in a register of `bytes` bytes.
static inline uint64_t ptx_element_read(const void *reg, uint32_t bytes, uint32_t lane) {
  switch (bytes) {
  case 2:
    return ((const uint16_t *)reg)[lane];
  case 4:
    return ((const uint32_t *)reg)[lane];
  default:
    return ((const uint64_t *)reg)[lane];
  }
}

static inline void ptx_element_write(void *reg, uint32_t bytes, uint32_t lane, uint64_t value) {
  switch (bytes) {
  case 2:
    ((uint16_t *)reg)[lane] = (uint16_t)value;
    break;
  case 4:
    ((uint32_t *)reg)[lane] = (uint32_t)value;
    break;
  default:
    ((uint64_t *)reg)[lane] = value;
  }
}

// Executes a statement for each lane `l` of the group.
#define PTX_EACH_LANE(w, ...)                                                                      \
  do {                                                                                             \
    if ((w)->mask == PTX_ALL_LANES) {                                                              \
      for (uint32_t l = 0; l < PTX_WARP; l++) {                                                    \
        __VA_ARGS__;                                                                               \
      }                                                                                            \
    } else {                                                                                       \
      for (uint32_t each = (w)->mask; each; each &= each - 1) {                                    \
        const uint32_t l = (uint32_t)__builtin_ctz(each);                                          \
        __VA_ARGS__;                                                                               \
      }                                                                                            \
    }                                                                                              \
  } while (0)

// An instruction without other parts than registers: ptx_ops.c.
struct ptx_op {
  const char *text; // all of its name
  ptx_run *run;
  uint8_t bytes[5]; // of the registers: the result, then the operands; 1: a predicate; 0: none
};
const struct ptx_op *ptx_op_named(const char *text);
ptx_run ptx_run_cvt;    // offset: to, from, rounding, modifiers, a byte each from the lowest
ptx_run ptx_run_pack;   // r[0] from use.count elements
ptx_run ptx_run_unpack; // use.count elements, perhaps PTX_NO_REGISTER, from r[use.count]

// Control: ptx_control.c.
uint64_t ptx_clock_ns(void); // the host's monotonic clock
ptx_run ptx_run_block;       // begins a basic block
ptx_run ptx_run_jump;        // to target
ptx_run ptx_run_branch;      // r[0]: predicate
ptx_run ptx_run_unless;      // the same, where the predicate is false
ptx_run ptx_run_barrier;     // r[0]: number; use.count 2: r[1]: threads; use.is_signed: aligned
ptx_run ptx_run_sleep;       // r[0]: ns
ptx_run ptx_run_exit;
ptx_run ptx_run_trap;
ptx_run ptx_run_special; // r[0]: result; offset: enum ptx_special

enum ptx_special {
  PTX_TID,
  PTX_NTID,
  PTX_CTAID,
  PTX_NCTAID,
  PTX_ZERO, // the second and third dimension of the four above
  PTX_ONE,
  PTX_LANE,
  PTX_WARP_ID,
  PTX_SM,
  PTX_CLOCK,
  PTX_CLOCK64,
  PTX_TIMER
};

// Memory: ptx_access.c. An update with use.count 0 is red, whose result nothing reads.
// Chooses the values of delayed loads that the instruction needs; null: all of the lanes `mask`.
void ptx_pending_resolve(struct ptx_warp *warp, const struct ptx_instr *instr, uint32_t mask);
// Where the memory of an address is that is not shared; own memory if it may not be used.
enum ptx_at ptx_address_at(struct ptx_block *block, uint64_t address, uint32_t bytes,
                           bool is_write);
ptx_run ptx_run_load;  // r: elements, address
ptx_run ptx_run_store; // r: address, elements
ptx_run ptx_run_fence;
ptx_run ptx_run_cas;      // r: result, address, compare, value
ptx_run ptx_run_exchange; // r: result, address, value; the next ones too
ptx_run ptx_run_fetch_add;
ptx_run ptx_run_fetch_and;
ptx_run ptx_run_fetch_or;
ptx_run ptx_run_fetch_xor;
ptx_run ptx_run_fetch_min;
ptx_run ptx_run_fetch_max;
ptx_run ptx_run_to_shared;   // cvta.to.shared
ptx_run ptx_run_from_shared; // cvta.shared
ptx_run ptx_run_is_shared;   // isspacep

// Ends the block with a line about the instruction that runs, the thread and what is wrong.
__attribute__((format(printf, 3, 4))) void ptx_accuse(struct ptx_warp *warp, uint32_t lane,
                                                      const char *format, ...);

// Whether the warps that wait at a barrier may go on after a change; lets them go.
void ptx_barriers_look(struct ptx_block *block);
// After lanes of the warp began to wait, or ended.
void ptx_barrier_arrive(struct ptx_warp *warp);

// The next number of the block's seed.
uint64_t ptx_block_random(struct ptx_block *block);

// Whether lane `lane` has set register `r` of the instruction.
static inline bool ptx_is_unset(const struct ptx_warp *w, uint32_t r, uint32_t lane) {
  return w->unset && !(r & PTX_CONSTANT) && (w->unset[r / PTX_SLOT_BYTES] >> lane & 1u);
}

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_EXEC_H
