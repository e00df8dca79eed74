#include "runtime/memory/range.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/platform.h"
#include "runtime/memory/extents.h"
#include <rondo/status.h>

#define PART_BYTES (UINT64_C(8) << 20) // smallest part

struct part {
  struct rondo_range_part is;
  struct rondo_device *device; // owns the memory; null: another process does
  struct rondo_extents extents;
};

struct rondo_range {
  pthread_mutex_t lock;
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
  return r;
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
    free(r->devices);
    free(r);
    return status;
  }
  pthread_mutex_init(&r->lock, NULL);
  *range = r;
  return RONDO_SUCCESS;
}

int rondo_range_adopt(struct rondo_device *device, uint64_t base, uint64_t bytes,
                      struct rondo_range **range) {
  struct rondo_range *r = range_create_empty(device, bytes);
  if (r)
    r->parts = calloc(1, sizeof *r->parts);
  if (!r || !r->parts || !rondo_extents_try_add(&r->parts->extents, 0, bytes)) {
    if (r) {
      free(r->parts);
      free(r->devices);
    }
    free(r);
    return RONDO_ERR_NO_MEMORY;
  }
  r->base = base;
  r->used = bytes;
  r->is_adopted = 1;
  r->parts->is = (struct rondo_range_part){0, bytes, -1};
  r->parts->device = device;
  r->part_count = 1;
  pthread_mutex_init(&r->lock, NULL);
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
  pthread_mutex_destroy(&r->lock);
  free(r->parts);
  free(r->devices);
  free(r);
}

int rondo_range_admit(struct rondo_range *r, struct rondo_device *device, char *why) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&r->lock);
  for (uint32_t i = 0; i < r->device_count; i++) {
    if (r->devices[i] == device) {
      pthread_mutex_unlock(&r->lock);
      return RONDO_SUCCESS;
    }
  }
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
  struct rondo_device **grown = realloc(r->devices, (r->device_count + 1) * sizeof *grown);
  if (grown)
    r->devices = grown;
  else
    status = RONDO_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < r->part_count && status == RONDO_SUCCESS; i++)
    status = range_sharing(r)->set_access(device, r->base + r->parts[i].is.at, r->parts[i].is.bytes,
                                          why);
  if (status == RONDO_SUCCESS)
    r->devices[r->device_count++] = device;
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

// Adds a part of at least `bytes` of the device's memory. Needs the lock. Null on failure.
static struct part *range_grow(struct rondo_range *r, struct rondo_device *device, uint64_t bytes,
                               char *why) {
  struct part *p = range_reserve_part(r, why);
  uint64_t size = rondo_round_up(bytes < PART_BYTES ? PART_BYTES : bytes, RONDO_RANGE_UNIT_BYTES);
  uint64_t at = r->base + r->used;
  if (!p)
    return NULL;
  if (size > r->bytes - r->used) {
    snprintf(why, RONDO_WHY_BYTES, "its reserved addresses are used up");
    return NULL;
  }
  p->is = (struct rondo_range_part){r->used, size, -1};
  p->device = device;
  if (!rondo_extents_try_add(&p->extents, r->used, size) ||
      range_sharing(r)->allocate(device, at, size, &p->is.fd, why) != RONDO_SUCCESS) {
    rondo_extents_fini(&p->extents);
    return NULL;
  }
  if (range_allow_devices(r, at, size, why) != RONDO_SUCCESS) {
    rondo_extents_fini(&p->extents);
    close(p->is.fd);
    return NULL;
  }
  r->used += size;
  r->part_count++;
  return p;
}

bool rondo_range_part(struct rondo_range *r, uint32_t index, struct rondo_range_part *part) {
  pthread_mutex_lock(&r->lock);
  bool is_there = index < r->part_count;
  if (is_there)
    *part = r->parts[index].is;
  pthread_mutex_unlock(&r->lock);
  return is_there;
}

int rondo_range_map(struct rondo_range *r, const struct rondo_range_part *part, char *why) {
  int status = RONDO_ERR_INVALID;
  snprintf(why, RONDO_WHY_BYTES, "the offered memory is not a part of its range");
  pthread_mutex_lock(&r->lock);
  struct part *p = NULL;
  if (part->at == r->used && part->bytes && part->bytes % RONDO_RANGE_UNIT_BYTES == 0 &&
      part->bytes <= r->bytes - r->used)
    p = range_reserve_part(r, why);
  if (p) {
    uint64_t at = r->base + part->at;
    p->is = (struct rondo_range_part){part->at, part->bytes, -1};
    p->device = NULL;
    status = range_sharing(r)->map(r->devices[0], at, part->bytes, part->fd, why);
    if (status == RONDO_SUCCESS)
      status = range_allow_devices(r, at, part->bytes, why);
  }
  if (status == RONDO_SUCCESS) {
    r->used += part->bytes;
    r->part_count++;
  }
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
  int has_piece = range_try_alloc(r, device, bytes, &at) ||
                  (range_grow(r, device, bytes, why) && range_try_alloc(r, device, bytes, &at));
  pthread_mutex_unlock(&r->lock);
  if (!has_piece)
    return NULL;
  void *memory = (void *)(uintptr_t)(r->base + at);
  if (range_sharing(r)->zero(device, r->base + at, bytes) == RONDO_SUCCESS)
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
