// The CUDA driver as the runtime sees it: its table.
#include <string.h>

#include "daemon/cuda/backend.h"

#define DEFAULT_BLOCKS 4u // a few multiprocessors of a hundred move data as fast as memory allows

static void cuda_complete(struct rondo_config *cfg) {
  if (!cfg->blocks && cfg->multiprocessors && cfg->multiprocessors < DEFAULT_BLOCKS)
    cfg->blocks = cfg->multiprocessors;
  if (!cfg->blocks)
    cfg->blocks = DEFAULT_BLOCKS;
  if (!cfg->threads)
    cfg->threads = RONDO_CUDA_THREADS;
  if (!cfg->workers)
    cfg->workers = 1; // not used: no thread of the CPU steps a block
}

static int cuda_attach(struct rondo_daemon *base, const struct rondo_config *cfg) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  (void)cfg;
  int status = rondo_cuda_poller_add(d);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_cuda_launcher_add(d);
  if (status != RONDO_SUCCESS)
    rondo_cuda_poller_remove(d);
  return status;
}

static void cuda_detach(struct rondo_daemon *base) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  rondo_cuda_launcher_remove(d);
  rondo_cuda_poller_remove(d);
}

static void cuda_kick(struct rondo_daemon *base, int urgent) {
  (void)urgent; // nobody but the device does the work, so every submission is
  rondo_cuda_launcher_kick(rondo_cuda_daemon_of(base));
  rondo_cuda_poller_kick();
}

// The state of a context as it was saved last. Returns 1, or 0 if there is none.
static int read_state(const struct rondo_daemon *base, uint32_t block, uint32_t index,
                      struct rondo_context_dynamic *state) {
  struct rondo_device_collective entry;
  struct rondo_task_context context;
  uint64_t page = 0;
  uint64_t at = base->table + index / RONDO_TABLE_PAGE * sizeof page;
  if (rondo_cuda_read(base->device, &page, at, sizeof page) != RONDO_SUCCESS || !page)
    return 0;
  at = page + index % RONDO_TABLE_PAGE * sizeof entry;
  if (rondo_cuda_read(base->device, &entry, at, sizeof entry) != RONDO_SUCCESS)
    return 0;
  at = entry.contexts + block * sizeof context;
  if (block >= entry.block_count ||
      rondo_cuda_read(base->device, &context, at, sizeof context) != RONDO_SUCCESS)
    return 0;
  *state = context.state;
  return 1;
}

// What the block has told of the collective that it works on, which it has not saved.
static void add_what_was_told(const struct rondo_cuda_block_status *s, struct rondo_look *look) {
  uint32_t stands = rondo_load_relaxed_u32(&s->stands);
  look->is_scheduled = 1;
  look->waiting_ns = rondo_load_relaxed_u64(&s->waiting_ns);
  if (!stands)
    return;
  look->state.phase = (uint8_t)stands;
  look->state.op = (uint8_t)(stands >> 8);
  look->state.has_reference = (stands & RONDO_STANDS_HAS_REFERENCE) != 0;
  look->state.run.number = rondo_load_relaxed_u64(&s->run);
  look->state.repeat = rondo_load_relaxed_u32(&s->repeat);
  look->state.bound_send = (uint16_t)rondo_load_relaxed_u32(&s->bound_send);
  look->has_data = (stands & RONDO_STANDS_HAS_DATA) != 0;
}

// As of the moment at which the block told, or saved, last: within a millisecond for what is stuck.
static int cuda_look(struct rondo_daemon *base, uint32_t block, uint32_t index,
                     struct rondo_look *look) {
  const struct rondo_cuda_block_status *s = &rondo_cuda_daemon_of(base)->status[block];
  memset(look, 0, sizeof *look);
  if (!read_state(base, block, index, &look->state))
    return 0;
  if (rondo_load_relaxed_u32(&s->scheduled) == index + 1)
    add_what_was_told(s, look);
  return look->state.phase != RONDO_PHASE_IDLE;
}

static void cuda_count(struct rondo_daemon *base, struct rondo_daemon_counters *c) {
  const struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  memset(c, 0, sizeof *c);
  for (uint32_t b = 0; b < d->block_count; b++)
    rondo_daemon_counters_add(c, &d->status[b].counters);
  c->starts = rondo_load_relaxed_u64(&d->starts);
  c->helped = rondo_load_relaxed_u64(&d->helped);
}

const struct rondo_driver rondo_cuda_driver = {.name = "cuda",
                                               .complete = cuda_complete,
                                               .describe = rondo_cuda_describe,
                                               .open = rondo_cuda_open,
                                               .close = rondo_cuda_close,
                                               .node = rondo_cuda_node,
                                               .alloc = rondo_cuda_alloc,
                                               .free = rondo_cuda_free,
                                               .write = rondo_cuda_write,
                                               .read = rondo_cuda_read,
                                               .copy = rondo_cuda_copy,
                                               .check = rondo_cuda_check,
                                               .reach = rondo_cuda_reach,
                                               .sharing = &rondo_cuda_sharing,
                                               .setup = &rondo_cuda_setup,
                                               .create = rondo_cuda_create,
                                               .destroy = rondo_cuda_destroy,
                                               .attach = cuda_attach,
                                               .detach = cuda_detach,
                                               .kick = cuda_kick,
                                               .done = rondo_cuda_done,
                                               .is_silent = 1,
                                               .help = rondo_cuda_help,
                                               .synchronize = rondo_cuda_synchronize,
                                               .enqueue = rondo_cuda_enqueue,
                                               .is_capturing = rondo_cuda_is_capturing,
                                               .capture = rondo_cuda_capture,
                                               .look = cuda_look,
                                               .count = cuda_count};
