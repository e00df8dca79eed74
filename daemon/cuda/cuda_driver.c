// The CUDA driver's table.
#include <string.h>

#include "daemon/cuda/cuda_backend.h"

#define DEFAULT_BLOCKS 4u // a few of a hundred multiprocessors move data as fast as memory allows

static void cuda_complete_config(struct rondo_config *cfg) {
  if (!cfg->blocks && cfg->multiprocessors && cfg->multiprocessors < DEFAULT_BLOCKS)
    cfg->blocks = cfg->multiprocessors;
  if (!cfg->blocks)
    cfg->blocks = DEFAULT_BLOCKS;
  if (!cfg->threads)
    cfg->threads = RONDO_CUDA_THREADS;
  if (!cfg->workers)
    cfg->workers = 1; // unused: no CPU thread steps a block
}

static int cuda_attach(struct rondo_daemon *base, const struct rondo_config *cfg) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  (void)cfg;
  int status = rondo_cuda_reaper_add(d);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_cuda_launcher_add(d);
  if (status != RONDO_SUCCESS)
    rondo_cuda_reaper_remove(d);
  return status;
}

static void cuda_detach(struct rondo_daemon *base) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  rondo_cuda_launcher_remove(d);
  rondo_cuda_reaper_remove(d);
  rondo_cuda_inspector_remove(d);
}

static void cuda_notify_submission(struct rondo_daemon *base, bool urgent) {
  (void)urgent; // only the device can do the work
  rondo_cuda_launcher_notify(rondo_cuda_daemon_of(base));
  rondo_cuda_reaper_notify();
}

static void cuda_read_counters(struct rondo_daemon *base, struct rondo_daemon_counters *c) {
  const struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  memset(c, 0, sizeof *c);
  for (uint32_t b = 0; b < d->block_count; b++)
    rondo_daemon_counters_add(c, &d->status[b].counters);
  c->starts = rondo_load_relaxed_u64(&d->starts);
  c->helped = rondo_load_relaxed_u64(&d->helped);
}

const struct rondo_driver rondo_cuda_driver = {.name = "cuda",
                                               .complete_config = cuda_complete_config,
                                               .describe = rondo_cuda_describe,
                                               .open = rondo_cuda_open,
                                               .close = rondo_cuda_close,
                                               .node = rondo_cuda_node,
                                               .pci = rondo_cuda_pci,
                                               .links = rondo_cuda_links,
                                               .alloc = rondo_cuda_alloc,
                                               .free = rondo_cuda_free,
                                               .write = rondo_cuda_write,
                                               .read = rondo_cuda_read,
                                               .copy = rondo_cuda_copy,
                                               .check_buffer = rondo_cuda_check_buffer,
                                               .reach = rondo_cuda_reach,
                                               .sharing = &rondo_cuda_sharing,
                                               .setup = &rondo_cuda_setup,
                                               .create = rondo_cuda_create,
                                               .destroy = rondo_cuda_destroy,
                                               .attach = cuda_attach,
                                               .detach = cuda_detach,
                                               .notify_submission = cuda_notify_submission,
                                               .notify_completion = rondo_cuda_notify_completion,
                                               .is_silent = true,
                                               .wait = rondo_cuda_wait,
                                               .synchronize = rondo_cuda_synchronize,
                                               .enqueue = rondo_cuda_enqueue,
                                               .get_capturing = rondo_cuda_get_capturing,
                                               .capture = rondo_cuda_capture,
                                               .try_inspect = rondo_cuda_try_inspect,
                                               .read_counters = cuda_read_counters};
