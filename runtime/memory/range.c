#include "runtime/memory/range.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/platform.h"
#include "runtime/memory/extents.h"
#include <rondo/status.h>

#define PART_BYTES (UINT64_C(8) << 20) // smallest part
#define HEAD_BYTES ((uint64_t)RONDO_RANGE_SLOTS * RONDO_RANGE_SLOT_BYTES)

struct part {
  struct rondo_range_part is;
  struct rondo_device *device; // owns the memory; null: another process does
  struct rondo_extents extents;
};

struct rondo_range {
  pthread_mutex_t lock;     // not held in calls of the driver, which may wait for the device
  pthread_cond_t unclaimed; // is_claimed has become false
  bool is_claimed;          // a thread changes `used`, `devices` or the list of parts
  uint64_t base, bytes, used;
  int is_adopted;                // something else owns the memory
  struct rondo_device **devices; // may use it; the first one reserved it
  uint32_t device_count;
  struct part *parts;
  uint32_t part_count;
};

static const struct rondo_sharing *range_sharing(const struct rondo_range *r) {
  return r->devices[0]->driver->sharing;
}

static struct rondo_range *range_create_empty(struct rondo_device *device, uint64_t bytes) {
  struct rondo_range *r = calloc(1, sizeof *r);
  if (r)
    r->devices = malloc(sizeof(struct rondo_device *));
  if (!r || !r->devices) {
    free(r);
    return NULL;
  }
  r->devices[0] = device;
  r->device_count = 1;
  r->bytes = bytes;
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->unclaimed, NULL);
  return r;
}

static void range_free(struct rondo_range *r) {
  pthread_cond_destroy(&r->unclaimed);
  pthread_mutex_destroy(&r->lock);
  free(r->parts);
  free(r->devices);
  free(r);
}

// Lets this thread alone change the range. Releases the lock while another thread does.
static void range_claim(struct rondo_range *r) {
  while (r->is_claimed)
    pthread_cond_wait(&r->unclaimed, &r->lock);
  r->is_claimed = true;
}

static void range_unclaim(struct rondo_range *r) {
  r->is_claimed = false;
  pthread_cond_broadcast(&r->unclaimed);
}

int rondo_range_create(struct rondo_device *device, uint64_t bytes, struct rondo_range **range,
                       char *why) {
  struct rondo_range *r = range_create_empty(device, bytes);
  if (!r) {
    snprintf(why, RONDO_WHY_BYTES, "no memory");
    return RONDO_ERR_NO_MEMORY;
  }
  int status = range_sharing(r)->reserve(device, &r->base, &r->bytes, why);
  if (status != RONDO_SUCCESS) {
    range_free(r);
    return status;
  }
  *range = r;
  return RONDO_SUCCESS;
}

int rondo_range_adopt(struct rondo_device *device, uint64_t base, uint64_t bytes,
                      struct rondo_range **range) {
  struct rondo_range *r = range_create_empty(device, bytes);
  if (r)
    r->parts = calloc(1, sizeof *r->parts);
  if (!r || !r->parts || !rondo_extents_try_add(&r->parts->extents, 0, bytes)) {
    if (r)
      range_free(r);
    return RONDO_ERR_NO_MEMORY;
  }
  r->base = base;
  r->used = bytes;
  r->is_adopted = 1;
  r->parts->is = (struct rondo_range_part){0, bytes, -1};
  r->parts->device = device;
  r->part_count = 1;
  *range = r;
  return RONDO_SUCCESS;
}

void rondo_range_destroy(struct rondo_range *r) {
  if (!r)
    return;
  for (uint32_t i = 0; i < r->part_count; i++) {
    struct part *p = &r->parts[i];
    if (!r->is_adopted)
      range_sharing(r)->unmap(r->devices[0], r->base + p->is.at, p->is.bytes);
    rondo_extents_fini(&p->extents);
    if (p->is.fd >= 0)
      close(p->is.fd);
  }
  if (!r->is_adopted)
    range_sharing(r)->release(r->devices[0], r->base, r->bytes);
  range_free(r);
}

// Adds a device to a range that this thread has claimed. Releases the lock meanwhile.
static int range_add_device(struct rondo_range *r, struct rondo_device *device, char *why) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
  struct rondo_device **grown = realloc(r->devices, (r->device_count + 1) * sizeof *grown);
  if (!grown)
    return RONDO_ERR_NO_MEMORY;
  r->devices = grown;
  int status = RONDO_SUCCESS;
  pthread_mutex_unlock(&r->lock);
  for (uint32_t i = 0; i < r->part_count && status == RONDO_SUCCESS; i++)
    status = range_sharing(r)->set_access(device, r->base + r->parts[i].is.at, r->parts[i].is.bytes,
                                          why);
  pthread_mutex_lock(&r->lock);
  if (status == RONDO_SUCCESS)
    r->devices[r->device_count++] = device;
  return status;
}

int rondo_range_admit(struct rondo_range *r, struct rondo_device *device, char *why) {
  bool is_known = false;
  pthread_mutex_lock(&r->lock);
  range_claim(r);
  for (uint32_t i = 0; i < r->device_count; i++)
    is_known |= r->devices[i] == device;
  int status = is_known ? RONDO_SUCCESS : range_add_device(r, device, why);
  range_unclaim(r);
  pthread_mutex_unlock(&r->lock);
  return status;
}

uint64_t rondo_range_base(const struct rondo_range *r) { return r->base; }
uint64_t rondo_range_bytes(const struct rondo_range *r) { return r->bytes; }

// --------------------------------------------------------------------- parts --

// Lets all devices use mapped memory; unmaps the memory on failure.
static int range_allow_devices(const struct rondo_range *r, uint64_t at, uint64_t bytes,
                               char *why) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < r->device_count && status == RONDO_SUCCESS; i++)
    status = range_sharing(r)->set_access(r->devices[i], at, bytes, why);
  if (status != RONDO_SUCCESS)
    range_sharing(r)->unmap(r->devices[0], at, bytes);
  return status;
}

// Makes room in the table for one more part.
static struct part *range_reserve_part(struct rondo_range *r, char *why) {
  struct part *grown = realloc(r->parts, (r->part_count + 1) * sizeof *grown);
  if (!grown) {
    snprintf(why, RONDO_WHY_BYTES, "no memory");
    return NULL;
  }
  r->parts = grown;
  rondo_extents_init(&grown[r->part_count].extents);
  return &grown[r->part_count];
}

// Allocates the memory of a part, and lets all devices use it. No lock is held.
static bool part_try_allocate(const struct rondo_range *r, struct part *p, char *why) {
  uint64_t at = r->base + p->is.at;
  if (range_sharing(r)->allocate(p->device, at, p->is.bytes, &p->is.fd, why) != RONDO_SUCCESS)
    return false;
  if (range_allow_devices(r, at, p->is.bytes, why) == RONDO_SUCCESS)
    return true;
  close(p->is.fd);
  return false;
}

// Adds a part of at least `bytes` of the device's memory to a range that this thread has claimed.
// Releases the lock meanwhile. False on failure.
static bool range_try_grow(struct rondo_range *r, struct rondo_device *device, uint64_t bytes,
                           char *why) {
  struct part *p = range_reserve_part(r, why);
  bytes += HEAD_BYTES;
  uint64_t size = rondo_round_up(bytes < PART_BYTES ? PART_BYTES : bytes, RONDO_RANGE_UNIT_BYTES);
  if (!p)
    return false;
  if (size > r->bytes - r->used) {
    snprintf(why, RONDO_WHY_BYTES, "its reserved addresses are used up");
    return false;
  }
  p->is = (struct rondo_range_part){r->used, size, -1};
  p->device = device;
  pthread_mutex_unlock(&r->lock);
  bool is_made = rondo_extents_try_add(&p->extents, p->is.at + HEAD_BYTES, size - HEAD_BYTES) &&
                 part_try_allocate(r, p, why);
  pthread_mutex_lock(&r->lock);
  if (!is_made) {
    rondo_extents_fini(&p->extents);
    return false;
  }
  r->used += size;
  r->part_count++;
  return true;
}

bool rondo_range_part(struct rondo_range *r, uint32_t index, struct rondo_range_part *part) {
  pthread_mutex_lock(&r->lock);
  bool is_there = index < r->part_count;
  if (is_there)
    *part = r->parts[index].is;
  pthread_mutex_unlock(&r->lock);
  return is_there;
}

// Copies a pattern from memory of the device to `slot`, and back. `scratch` is that memory.
static int slot_try(struct rondo_device *device, uint64_t slot, void *scratch) {
  uint64_t sent[RONDO_RANGE_SLOT_BYTES / sizeof(uint64_t)];
  uint64_t received[RONDO_RANGE_SLOT_BYTES / sizeof(uint64_t)] = {0};
  uint64_t at = (uint64_t)(uintptr_t)scratch;
  void *there = (void *)(uintptr_t)slot;
  for (uint32_t i = 0; i < sizeof sent / sizeof *sent; i++)
    sent[i] = (rondo_now_ns() + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
  int status = device->driver->write(device, at, sent, sizeof sent);
  if (status == RONDO_SUCCESS)
    status = device->driver->copy(device, there, scratch, sizeof sent);
  if (status == RONDO_SUCCESS)
    status = device->driver->write(device, at, received, sizeof received);
  if (status == RONDO_SUCCESS)
    status = device->driver->copy(device, scratch, there, sizeof sent);
  if (status == RONDO_SUCCESS)
    status = device->driver->read(device, received, at, sizeof received);
  if (status != RONDO_SUCCESS)
    return status;
  return memcmp(sent, received, sizeof sent) == 0 ? RONDO_SUCCESS : RONDO_ERR_INTERNAL;
}

// Tries a slot of mapped memory with all devices. Unmaps the `bytes` at `at` on failure.
static int range_try_slot(const struct rondo_range *r, uint64_t at, uint64_t bytes, uint32_t slot,
                          char *why) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < r->device_count && status == RONDO_SUCCESS; i++) {
    struct rondo_device *device = r->devices[i];
    void *scratch =
        device->driver->alloc(device, RONDO_MEMORY_DEVICE, (uint64_t)RONDO_RANGE_SLOT_BYTES);
    status = scratch ? slot_try(device, at + slot * (uint64_t)RONDO_RANGE_SLOT_BYTES, scratch)
                     : RONDO_ERR_NO_MEMORY;
    device->driver->free(device, RONDO_MEMORY_DEVICE, scratch);
  }
  if (status == RONDO_SUCCESS)
    return status;
  snprintf(why, RONDO_WHY_BYTES, "%s",
           status == RONDO_ERR_INTERNAL ? "bytes that are written there have changed when they are "
                                          "read again (is the IOMMU on?)"
                                        : "copies to it and from it fail");
  range_sharing(r)->unmap(r->devices[0], at, bytes);
  return status;
}

int rondo_range_map(struct rondo_range *r, const struct rondo_range_part *part, uint32_t slot,
                    char *why) {
  int status = RONDO_ERR_INVALID;
  snprintf(why, RONDO_WHY_BYTES, "the offered memory is not a part of its range");
  pthread_mutex_lock(&r->lock);
  range_claim(r);
  struct part *p = NULL;
  if (part->at == r->used && part->bytes && part->bytes % RONDO_RANGE_UNIT_BYTES == 0 &&
      part->bytes <= r->bytes - r->used)
    p = range_reserve_part(r, why);
  if (p) {
    uint64_t at = r->base + part->at;
    p->is = (struct rondo_range_part){part->at, part->bytes, -1};
    p->device = NULL;
    pthread_mutex_unlock(&r->lock);
    status = range_sharing(r)->map(r->devices[0], at, part->bytes, part->fd, why);
    if (status == RONDO_SUCCESS)
      status = range_allow_devices(r, at, part->bytes, why);
    if (status == RONDO_SUCCESS && slot < RONDO_RANGE_SLOTS)
      status = range_try_slot(r, at, part->bytes, slot, why);
    pthread_mutex_lock(&r->lock);
  }
  if (status == RONDO_SUCCESS) {
    r->used += part->bytes;
    r->part_count++;
  }
  range_unclaim(r);
  pthread_mutex_unlock(&r->lock);
  return status;
}

// -------------------------------------------------------------------- pieces --

// Allocates a piece from the existing parts. False if none has room.
static bool range_try_alloc(struct rondo_range *r, const struct rondo_device *device,
                            uint64_t bytes, uint64_t *at) {
  for (uint32_t i = 0; i < r->part_count; i++)
    if (r->parts[i].device == device &&
        rondo_extents_try_alloc(&r->parts[i].extents, bytes, RONDO_LINE_BYTES, at))
      return true;
  return false;
}

void *rondo_range_alloc(struct rondo_range *r, struct rondo_device *device, uint64_t bytes,
                        char *why) {
  uint64_t at = 0;
  snprintf(why, RONDO_WHY_BYTES, "no memory");
  if (bytes > r->bytes)
    return NULL;
  bytes = rondo_round_up(bytes ? bytes : 1, RONDO_LINE_BYTES);
  pthread_mutex_lock(&r->lock);
  bool has_piece = range_try_alloc(r, device, bytes, &at);
  if (!has_piece) {
    range_claim(r); // another thread may have grown it meanwhile
    has_piece = range_try_alloc(r, device, bytes, &at) ||
                (range_try_grow(r, device, bytes, why) && range_try_alloc(r, device, bytes, &at));
    range_unclaim(r);
  }
  pthread_mutex_unlock(&r->lock);
  return has_piece ? (void *)(uintptr_t)(r->base + at) : NULL;
}

void *rondo_range_alloc_zeroed(struct rondo_range *r, struct rondo_device *device, uint64_t bytes,
                               char *why) {
  void *memory = rondo_range_alloc(r, device, bytes, why);
  if (!memory || range_sharing(r)->zero(device, (uint64_t)(uintptr_t)memory, bytes ? bytes : 1) ==
                     RONDO_SUCCESS)
    return memory;
  snprintf(why, RONDO_WHY_BYTES, "the device failed to clear its memory");
  (void)rondo_range_free(r, memory);
  return NULL;
}

bool rondo_range_free(struct rondo_range *r, const void *memory) {
  uint64_t at = (uint64_t)(uintptr_t)memory - r->base;
  bool found = false;
  pthread_mutex_lock(&r->lock);
  for (uint32_t i = 0; i < r->part_count && !found; i++) {
    struct part *p = &r->parts[i];
    found =
        p->device && at - p->is.at < p->is.bytes && rondo_extents_allocated_bytes(&p->extents, at);
    if (found)
      rondo_extents_free(&p->extents, at);
  }
  pthread_mutex_unlock(&r->lock);
  return found;
}
