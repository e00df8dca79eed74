// Counts of accesses and chains of them.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_exec.h"
#include "tests/support/ptx/ptx_meter.h"

#define MAX_INSTRUCTIONS (1u << 20)
#define WORDS (1u << 16) // of all memory, whose chains are known
#define POLLS (1u << 12) // of a block

// Links before a value: the most of each kind.
struct word {
  uint64_t address; // divided by 8
  struct ptx_chain depth;
};

struct poll {
  const struct ptx_instr *instr;
  uint64_t address, value;
  uint32_t thread;
  uint64_t news; // of the lane
};

// Of a submission queue.
struct range {
  uint64_t begin, bytes;
};

struct ptx_meter {
  pthread_mutex_t lock;
  struct range queues[PTX_METER_DEVICES];
  uint32_t window; // number of the window, also read without the lock
  struct ptx_counts counts[PTX_METER_DEVICES][PTX_METER_ROLES];
  const struct ptx_kernel *kernel;
  uint32_t instructions; // of the kernel
  uint64_t touched[MAX_INSTRUCTIONS / 64];
  struct word words[WORDS];
};

// What a warp's lanes know.
struct warp_meter {
  struct ptx_counts counts;           // of this turn
  struct ptx_chain *registers;        // 32 a slot
  struct ptx_chain control[PTX_WARP]; // of what the lane has decided by
  struct ptx_chain stored[PTX_WARP];  // of its stores, which a fence waits for
  uint32_t unfenced;                  // lanes that have stored since their last fence
  uint32_t mask;                      // of the instruction
  uint64_t address[PTX_WARP];
  enum ptx_at at[PTX_WARP];
  uint64_t news[PTX_WARP]; // barriers, and words that were found changed
  uint64_t *touched;       // instructions of this turn
  // Bytes that a lane has loaded, and those of them that it has waited for: loads return in turn.
  // `due`: of registers, as `registers`; what has been loaded with the load that writes it.
  uint64_t loaded[PTX_WARP], arrived[PTX_WARP], *due;
};

struct ptx_block_meter {
  struct warp_meter *warps;
  struct poll polls[POLLS];
  struct ptx_chain *shared; // of words of 4 bytes
  uint32_t window;
};

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void depth_join(struct ptx_chain *to, const struct ptx_chain *from) {
  to->peer = most(to->peer, from->peer);
  to->host_loads = most(to->host_loads, from->host_loads);
  to->all = most(to->all, from->all);
  to->fences = most(to->fences, from->fences);
}

static uint64_t hash(uint64_t x) { return (x * 0x9e3779b97f4a7c15u) >> 40; }

struct ptx_meter *ptx_meter_create(void) {
  struct ptx_meter *m = calloc(1, sizeof *m);
  if (m)
    pthread_mutex_init(&m->lock, NULL);
  return m;
}

void ptx_meter_destroy(struct ptx_meter *m) {
  if (m)
    pthread_mutex_destroy(&m->lock);
  free(m);
}

void ptx_meter_begin(struct ptx_meter *m) {
  pthread_mutex_lock(&m->lock);
  __atomic_add_fetch(&m->window, 1, __ATOMIC_RELAXED);
  memset(m->counts, 0, sizeof m->counts);
  memset(m->touched, 0, sizeof m->touched);
  memset(m->words, 0, sizeof m->words);
  pthread_mutex_unlock(&m->lock);
}

void ptx_meter_set_queue(struct ptx_meter *m, uint32_t device, uint64_t begin, uint64_t bytes) {
  m->queues[device % PTX_METER_DEVICES] = (struct range){begin, bytes};
}

void ptx_meter_read(struct ptx_meter *m, uint32_t device, uint32_t role,
                    struct ptx_counts *counts) {
  pthread_mutex_lock(&m->lock);
  *counts = m->counts[device][role];
  pthread_mutex_unlock(&m->lock);
}

uint32_t ptx_meter_touched(struct ptx_meter *m, uint32_t *total) {
  uint32_t count = 0;
  pthread_mutex_lock(&m->lock);
  *total = m->instructions;
  for (uint32_t n = 0; n < MAX_INSTRUCTIONS / 64; n++)
    count += (uint32_t)__builtin_popcountll(m->touched[n]);
  pthread_mutex_unlock(&m->lock);
  return count;
}

// ------------------------------------------------------------------- of a block --

static uint32_t block_slots(const struct ptx_block *b) {
  return b->launch.kernel->register_bytes / PTX_SLOT_BYTES + 1;
}

int ptx_meter_attach(struct ptx_block *b) {
  const size_t touched_bytes = (b->launch.kernel->count / 64 + 1) * sizeof(uint64_t);
  struct ptx_block_meter *m = calloc(1, sizeof *m);
  b->meter = m;
  if (!m || b->launch.kernel->count > MAX_INSTRUCTIONS)
    return -1;
  m->warps = calloc(b->warp_count, sizeof *m->warps);
  m->shared = calloc(b->shared_bytes / 4 + 1, sizeof *m->shared);
  for (uint32_t n = 0; m->warps && n < b->warp_count; n++) {
    m->warps[n].registers = calloc((size_t)block_slots(b) * PTX_WARP, sizeof(struct ptx_chain));
    m->warps[n].touched = calloc(1, touched_bytes);
    m->warps[n].due = calloc((size_t)block_slots(b) * PTX_WARP, sizeof(uint64_t));
    if (!m->warps[n].registers || !m->warps[n].touched || !m->warps[n].due)
      return -1;
  }
  return m->warps && m->shared ? 0 : -1;
}

void ptx_meter_detach(struct ptx_block *b) {
  struct ptx_block_meter *m = b->meter;
  for (uint32_t n = 0; m && m->warps && n < b->warp_count; n++) {
    free(m->warps[n].registers);
    free(m->warps[n].touched);
    free(m->warps[n].due);
  }
  if (m) {
    free(m->warps);
    free(m->shared);
  }
  free(m);
}

// A new window: what the block knows of chains ends.
void ptx_meter_turn(struct ptx_warp *w) {
  struct ptx_block *b = w->block;
  struct ptx_block_meter *m = b->meter;
  const uint32_t window = __atomic_load_n(&b->launch.options->meter->window, __ATOMIC_RELAXED);
  if (window == m->window)
    return;
  m->window = window;
  memset(m->shared, 0, (b->shared_bytes / 4 + 1) * sizeof *m->shared);
  for (uint32_t n = 0; n < b->warp_count; n++) {
    struct warp_meter *wm = &m->warps[n];
    memset(wm->registers, 0, (size_t)block_slots(b) * PTX_WARP * sizeof(struct ptx_chain));
    memset(wm->control, 0, sizeof wm->control);
    memset(wm->stored, 0, sizeof wm->stored);
    memcpy(wm->arrived, wm->loaded, sizeof wm->arrived);
    wm->unfenced = 0;
    memset(&wm->counts, 0, sizeof wm->counts);
  }
}

static void counts_add(struct ptx_counts *to, const struct ptx_counts *from) {
  to->lane_instructions += from->lane_instructions;
  to->warp_instructions += from->warp_instructions;
  to->barriers += from->barriers;
  to->queue_polls += from->queue_polls;
  to->in_flight = to->in_flight > from->in_flight ? to->in_flight : from->in_flight;
  for (uint32_t n = 0; n < 3; n++) {
    to->fences[n] += from->fences[n];
    to->releases[n] += from->releases[n];
  }
  for (uint32_t at = 0; at < PTX_AT_COUNT; at++) {
    to->polls[at] += from->polls[at];
    for (uint32_t what = 0; what < PTX_WHAT_COUNT; what++) {
      to->accesses[at][what] += from->accesses[at][what];
      to->bytes[at][what] += from->bytes[at][what];
    }
  }
  depth_join(&to->chain, &from->chain);
}

static uint32_t warp_role(const struct ptx_warp *w) {
  const uint32_t last = w->block->warp_count - 1;
  if (w->index == 0)
    return 0;
  return last > 1 && w->index == last ? PTX_METER_LAST : PTX_METER_OTHERS;
}

void ptx_meter_flush(struct ptx_warp *w) {
  const struct ptx_options *o = w->block->launch.options;
  const struct ptx_kernel *k = w->block->launch.kernel;
  struct ptx_meter *m = o->meter;
  struct warp_meter *wm = &w->block->meter->warps[w->index];
  pthread_mutex_lock(&m->lock);
  if (m->window == w->block->meter->window) {
    if (m->kernel != k) {
      m->kernel = k;
      m->instructions = 0;
      for (uint32_t n = 0; n < k->count; n++)
        m->instructions += k->code[n].run != ptx_run_block;
    }
    counts_add(&m->counts[o->meter_device % PTX_METER_DEVICES][warp_role(w)], &wm->counts);
    for (uint32_t n = 0; n <= k->count / 64; n++)
      m->touched[n] |= wm->touched[n];
  }
  pthread_mutex_unlock(&m->lock);
  memset(&wm->counts, 0, sizeof wm->counts);
  memset(wm->touched, 0, (k->count / 64 + 1) * sizeof *wm->touched);
}

void ptx_meter_meet(struct ptx_block *b, uint32_t warps) {
  struct ptx_chain control = {0}, stored = {0};
  bool is_unfenced = false;
  b->meter->warps[0].counts.barriers++;
  for (uint32_t each = warps; each; each &= each - 1) {
    struct warp_meter *wm = &b->meter->warps[__builtin_ctz(each)];
    for (uint32_t l = 0; l < PTX_WARP; l++) {
      depth_join(&control, &wm->control[l]);
      depth_join(&stored, &wm->stored[l]);
    }
    is_unfenced |= wm->unfenced != 0;
  }
  for (uint32_t each = warps; each; each &= each - 1) {
    struct warp_meter *wm = &b->meter->warps[__builtin_ctz(each)];
    for (uint32_t l = 0; l < PTX_WARP; l++) {
      wm->control[l] = control;
      wm->stored[l] = stored;
      wm->news[l]++;
    }
    wm->unfenced = is_unfenced ? PTX_ALL_LANES : 0;
  }
}

// ------------------------------------------------------------- of an instruction --

static enum ptx_what instr_what(const struct ptx_instr *i) {
  return i->run == ptx_run_load    ? PTX_A_LOAD
         : i->run == ptx_run_store ? PTX_A_STORE
                                   : PTX_AN_UPDATE;
}

static bool instr_accesses(const struct ptx_instr *i) {
  return i->use.address_bytes && i->use.space != PTX_PARAM;
}

static uint32_t instr_bytes(const struct ptx_instr *i) {
  return (uint32_t)i->use.bytes * (i->use.count ? i->use.count : 1);
}

static uint32_t address_register(const struct ptx_instr *i) {
  const enum ptx_what what = instr_what(i);
  return i->r[what == PTX_A_LOAD ? i->use.count : what == PTX_A_STORE ? 0 : 1];
}

static void lane_find(struct ptx_warp *w, const struct ptx_instr *i, uint32_t lane) {
  const struct ptx_block *b = w->block;
  struct warp_meter *wm = &b->meter->warps[w->index];
  uint64_t address =
      ptx_element_read(ptx_operand(w, address_register(i)), i->use.address_bytes, lane) +
      (uint64_t)i->offset;
  const uint64_t window = address - (uintptr_t)b->shared;
  wm->at[lane] = PTX_AT_SHARED;
  if (i->use.space == PTX_SHARED)
    address -= PTX_SHARED_BASE;
  else if (window < b->shared_bytes)
    address = window;
  else
    wm->at[lane] = ptx_address_at(w->block, address, instr_bytes(i), instr_what(i) != PTX_A_LOAD);
  wm->address[lane] = address;
}

void ptx_meter_before(struct ptx_warp *w, const struct ptx_instr *i) {
  struct warp_meter *wm = &w->block->meter->warps[w->index];
  wm->mask = w->mask;
  for (uint32_t each = instr_accesses(i) ? w->mask : 0; each; each &= each - 1)
    lane_find(w, i, (uint32_t)__builtin_ctz(each));
}

static struct ptx_chain *register_depth(struct warp_meter *wm, uint32_t r, uint32_t lane) {
  return &wm->registers[r / PTX_SLOT_BYTES * PTX_WARP + lane];
}

// What the operands of an instruction depend on.
static struct ptx_chain operands_depth(struct warp_meter *wm, const struct ptx_instr *i,
                                       uint32_t lane) {
  struct ptx_chain d = {0};
  for (uint32_t o = i->written; o < (uint32_t)i->written + i->read; o++)
    if (!(i->r[o] & PTX_CONSTANT) && i->r[o] != PTX_NO_REGISTER)
      depth_join(&d, register_depth(wm, i->r[o], lane));
  return d;
}

static void results_set(struct warp_meter *wm, const struct ptx_instr *i, uint32_t lane,
                        const struct ptx_chain *d) {
  for (uint32_t o = 0; o < i->written; o++)
    if (i->r[o] != PTX_NO_REGISTER)
      *register_depth(wm, i->r[o], lane) = *d;
}

// Whether a load found what its thread had found before, with nothing new since.
static bool is_in_vain(struct ptx_warp *w, const struct ptx_instr *i, uint32_t lane) {
  struct warp_meter *wm = &w->block->meter->warps[w->index];
  const uint32_t thread = w->index * PTX_WARP + lane;
  const bool is_own_data = i->use.order == PTX_WEAK && wm->at[lane] == PTX_AT_OWN;
  uint64_t value = 0;
  if (i->run != ptx_run_load || is_own_data)
    return false;
  for (uint32_t k = 0; k < i->use.count; k++)
    if (i->r[k] != PTX_NO_REGISTER)
      value = value * 31 + ptx_element_read(ptx_operand(w, i->r[k]), i->use.register_bytes, lane);
  struct poll *p =
      &w->block->meter->polls[hash(wm->address[lane] + thread + (uintptr_t)i * 64) % POLLS];
  const bool is_known = p->instr == i && p->address == wm->address[lane] && p->thread == thread;
  const bool is_same = is_known && p->value == value;
  const bool is_vain = is_same && p->news == wm->news[lane];
  wm->news[lane] += is_known && !is_same && i->use.order != PTX_WEAK;
  *p = (struct poll){i, wm->address[lane], value, thread, wm->news[lane]};
  return is_vain;
}

// The chain behind the bytes of an access, in memory other than shared.
static void words_join(struct ptx_meter *m, const struct ptx_instr *i, uint64_t address,
                       struct ptx_chain *d, bool is_store) {
  pthread_mutex_lock(&m->lock);
  for (uint64_t word = address / 8; word <= (address + instr_bytes(i) - 1) / 8; word++) {
    struct word *known = &m->words[hash(word) % WORDS];
    if (is_store)
      *known = (struct word){word, *d};
    else if (known->address == word)
      depth_join(d, &known->depth);
  }
  pthread_mutex_unlock(&m->lock);
}

static void lane_shared(struct ptx_block *b, const struct ptx_instr *i, uint64_t address,
                        struct ptx_chain *d) {
  for (uint64_t n = address / 4; n <= (address + instr_bytes(i) - 1) / 4; n++) {
    if (n > b->shared_bytes / 4)
      return;
    if (i->run == ptx_run_load)
      depth_join(d, &b->meter->shared[n]);
    else
      b->meter->shared[n] = *d;
  }
}

// A fence waits for the stores before it.
static void lane_fence(struct warp_meter *wm, uint32_t lane, bool is_system) {
  struct ptx_chain *control = &wm->control[lane];
  depth_join(control, &wm->stored[lane]);
  if (is_system && (wm->unfenced >> lane & 1u)) {
    control->fences++;
    wm->unfenced &= ~(1u << lane);
  }
  depth_join(&wm->counts.chain, control);
}

// An access outside of shared memory. `d`: of its operands; then of its result.
static void lane_global(struct ptx_warp *w, const struct ptx_instr *i, uint32_t lane,
                        struct ptx_chain *d) {
  struct ptx_meter *m = w->block->launch.options->meter;
  struct warp_meter *wm = &w->block->meter->warps[w->index];
  const enum ptx_at at = wm->at[lane];
  const enum ptx_what what = instr_what(i);
  if (i->use.order >= PTX_RELEASE && what != PTX_A_LOAD) {
    wm->counts.releases[i->use.scope]++;
    lane_fence(wm, lane, i->use.scope == PTX_SYS);
  }
  depth_join(d, &wm->control[lane]);
  if (what != PTX_A_STORE)
    words_join(m, i, wm->address[lane], d, false);
  if (at == PTX_AT_PEER || at == PTX_AT_HOST) {
    d->all++;
    d->peer += at == PTX_AT_PEER;
    d->host_loads += at == PTX_AT_HOST && what == PTX_A_LOAD;
  }
  if (what != PTX_A_LOAD) {
    words_join(m, i, wm->address[lane], d, true);
    depth_join(&wm->stored[lane], d);
    wm->unfenced |= 1u << lane;
  }
  depth_join(&wm->counts.chain, d);
}

static void poll_count(struct ptx_warp *w, uint64_t address, enum ptx_at at) {
  const struct ptx_options *o = w->block->launch.options;
  const struct range *queue = &o->meter->queues[o->meter_device % PTX_METER_DEVICES];
  struct ptx_counts *counts = &w->block->meter->warps[w->index].counts;
  counts->polls[at]++;
  counts->queue_polls += address - queue->begin < queue->bytes;
}

static void lane_access(struct ptx_warp *w, const struct ptx_instr *i, uint32_t lane,
                        struct ptx_chain *d) {
  struct warp_meter *wm = &w->block->meter->warps[w->index];
  const enum ptx_at at = wm->at[lane];
  const enum ptx_what what = instr_what(i);
  wm->counts.accesses[at][what]++;
  wm->counts.bytes[at][what] += instr_bytes(i);
  if (at == PTX_AT_SHARED)
    lane_shared(w->block, i, wm->address[lane], d);
  else if (is_in_vain(w, i, lane))
    poll_count(w, wm->address[lane], at);
  else
    lane_global(w, i, lane, d);
}

// What the lane loads is on its way until an instruction reads it.
static void lane_flight(struct warp_meter *wm, const struct ptx_instr *i, uint32_t lane) {
  const bool loads = instr_accesses(i) && i->run != ptx_run_store && wm->at[lane] != PTX_AT_SHARED;
  for (uint32_t o = i->written; o < (uint32_t)i->written + i->read; o++)
    if (!(i->r[o] & PTX_CONSTANT) && i->r[o] != PTX_NO_REGISTER) {
      const uint64_t due = wm->due[i->r[o] / PTX_SLOT_BYTES * PTX_WARP + lane];
      wm->arrived[lane] = due > wm->arrived[lane] ? due : wm->arrived[lane];
    }
  wm->loaded[lane] += loads ? instr_bytes(i) : 0;
  for (uint32_t o = 0; o < i->written; o++)
    if (i->r[o] != PTX_NO_REGISTER)
      wm->due[i->r[o] / PTX_SLOT_BYTES * PTX_WARP + lane] = loads ? wm->loaded[lane] : 0;
}

static void warp_flight(struct warp_meter *wm) {
  uint64_t bytes = 0;
  for (uint32_t l = 0; l < PTX_WARP; l++)
    bytes += wm->loaded[l] - wm->arrived[l];
  wm->counts.in_flight = bytes > wm->counts.in_flight ? bytes : wm->counts.in_flight;
}

static bool instr_decides(const struct ptx_instr *i) {
  return i->run == ptx_run_branch || i->run == ptx_run_unless || i->run == ptx_run_barrier;
}

void ptx_meter_after(struct ptx_warp *w, const struct ptx_instr *i) {
  struct warp_meter *wm = &w->block->meter->warps[w->index];
  const uint32_t number = (uint32_t)(i - w->block->launch.kernel->code);
  const uint32_t lanes = (uint32_t)__builtin_popcount(wm->mask);
  if (i->run == ptx_run_block || w->stop == PTX_ACCUSED)
    return;
  wm->counts.warp_instructions++;
  wm->counts.lane_instructions += lanes;
  wm->touched[number / 64] |= UINT64_C(1) << number % 64;
  if (i->run == ptx_run_fence)
    wm->counts.fences[i->use.scope] += lanes;
  for (uint32_t each = wm->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    struct ptx_chain d = operands_depth(wm, i, l);
    if (i->run == ptx_run_fence && i->use.scope != PTX_CTA)
      lane_fence(wm, l, i->use.scope == PTX_SYS);
    if (instr_decides(i))
      depth_join(&wm->control[l], &d);
    if (instr_accesses(i))
      lane_access(w, i, l, &d);
    results_set(wm, i, l, &d);
    lane_flight(wm, i, l);
  }
  if (instr_accesses(i) && i->run == ptx_run_load)
    warp_flight(wm);
}
