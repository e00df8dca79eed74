// The range: device memory of this process that other processes of its machine may map. Each other
// process has a range object of its own for the mapping.
//
//   owner: rondo_range_create -> admit ... -> alloc / free ... -> rondo_range_destroy
//   other: rondo_range_create -> admit ... -> map (each part) ... -> rondo_range_destroy
//
// rondo_range_adopt makes a range of memory that something else allocated and shares, such as NCCL.
//
// A range serves devices as the arena (arena.h) serves the CPU. Its addresses are reserved at
// once, so that each piece lies at the same offset on both sides. It grows in parts; each part has
// a descriptor, which the owner sends to the other processes. Parts stay until the range ends,
// because freeing device memory could wait for everything that runs on the device.
#ifndef RONDO_RUNTIME_MEMORY_RANGE_H
#define RONDO_RUNTIME_MEMORY_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/driver/driver.h"

struct rondo_range;

// The head of each part is for processes that map the part: each tries a slot of its own.
#define RONDO_RANGE_SLOT_BYTES 64u
#define RONDO_RANGE_SLOTS 1024u

struct rondo_range_part {
  uint64_t at, bytes; // `at`: offset in the range
  int fd;             // owned by the range
};

// Reserves addresses for `bytes` (0: the driver's default for a process's own range) through
// `device`, which becomes the range's first device. Returns RONDO_SUCCESS, or with the reason in
// `why` (RONDO_WHY_BYTES) RONDO_ERR_UNSUPPORTED, RONDO_ERR_SYSTEM or RONDO_ERR_NO_MEMORY.
int rondo_range_create(struct rondo_device *device, uint64_t bytes, struct rondo_range **range,
                       char *why);
// Makes a range of existing device memory, which must outlive the range. The range does not grow.
// Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_range_adopt(struct rondo_device *device, uint64_t base, uint64_t bytes,
                      struct rondo_range **range);
// Called when nothing that runs uses the range any more.
void rondo_range_destroy(struct rondo_range *range);

// Lets one more device use the range. Does nothing for one that may use it already. Returns as
// rondo_range_create.
int rondo_range_admit(struct rondo_range *range, struct rondo_device *device, char *why);

uint64_t rondo_range_base(const struct rondo_range *range);
uint64_t rondo_range_bytes(const struct rondo_range *range);

// Allocates memory of one of the range's devices, aligned to RONDO_LINE_BYTES. Null with the reason
// in `why` when memory is used up. Any thread.
void *rondo_range_alloc(struct rondo_range *range, struct rondo_device *device, uint64_t bytes,
                        char *why);
// The same, and zeroes it. The driver may wait for the device.
void *rondo_range_alloc_zeroed(struct rondo_range *range, struct rondo_device *device,
                               uint64_t bytes, char *why);
// Frees a piece. False if `memory` is not a piece of the range. Any thread.
bool rondo_range_free(struct rondo_range *range, const void *memory);

// Writes part `index`, in order of creation. False if there are not so many. Any thread.
bool rondo_range_part(struct rondo_range *range, uint32_t index, struct rondo_range_part *part);

// Maps a part of another process's range, and tries with each device whether bytes that it writes
// there can be read again. part->fd may be closed afterwards. Parts must come in order and without
// gaps. `slot`: a number that no other process uses; from RONDO_RANGE_SLOTS on nothing is tried.
// Returns as rondo_range_create, RONDO_ERR_INVALID for a malformed part, or RONDO_ERR_INTERNAL: the
// bytes have changed.
int rondo_range_map(struct rondo_range *range, const struct rondo_range_part *part, uint32_t slot,
                    char *why);

#endif // RONDO_RUNTIME_MEMORY_RANGE_H
