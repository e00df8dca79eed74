// The range: memory of the devices of this process that other processes of its machine may map, and in
// the other process the same range as it is mapped there.
//
//   here:  rondo_range_create -> admit ... -> alloc / free ... -> rondo_range_destroy
//   there: rondo_range_create -> admit ... -> map (each part) ... -> rondo_range_destroy
//
// Or a range is made of memory that somebody else has made, and shares in some other way (rondo_range_adopt).
//
// As the arena (arena.h) is for the CPU: a stretch of addresses that is reserved at once, so that what lies in it lies
// at one distance on the other side. It gets memory in parts, each with a descriptor that goes to the others as one is added.
// Parts are kept until the range ends: giving memory back could wait for all that runs on the device.
#ifndef RONDO_RUNTIME_MEMORY_RANGE_H
#define RONDO_RUNTIME_MEMORY_RANGE_H

#include <stdint.h>

#include "daemon/driver/driver.h"

struct rondo_range;

struct rondo_range_part {
  uint64_t at, bytes; // distance from the begin of the range
  int fd;             // the range's
};

// Reserves addresses for `bytes` (0: as many as a process may want of its own) by way of a device, of which the range
// makes use. Returns RONDO_SUCCESS; RONDO_ERR_UNSUPPORTED or RONDO_ERR_SYSTEM, and the reason in `why` (of RONDO_WHY_BYTES);
// RONDO_ERR_NO_MEMORY.
int rondo_range_create(struct rondo_device *device, uint64_t bytes, struct rondo_range **range,
                       char *why);
// Makes a range of memory of the device that is there and outlives it: nothing is added to that. Returns RONDO_SUCCESS or
// RONDO_ERR_NO_MEMORY.
int rondo_range_adopt(struct rondo_device *device, uint64_t base, uint64_t bytes,
                      struct rondo_range **range);
// Nothing runs any more that uses it.
void rondo_range_destroy(struct rondo_range *range);

// One more device that shall use it. Nothing if it does already. Returns as create.
int rondo_range_admit(struct rondo_range *range, struct rondo_device *device, char *why);

uint64_t rondo_range_base(const struct rondo_range *range);
uint64_t rondo_range_bytes(const struct rondo_range *range);

// Zeroed memory of a device that the range makes use of, on a boundary of RONDO_LINE_BYTES. Null when there is none, and
// the reason in `why`. Any thread.
void *rondo_range_alloc(struct rondo_range *range, struct rondo_device *device, uint64_t bytes,
                        char *why);
// Gives it back. What is no piece of it is left alone and 0 returned, else 1. Any thread.
int rondo_range_free(struct rondo_range *range, const void *memory);

// Part `index` of those that there are, in order of their making. Returns 1, or 0 if there are not so many. Any thread.
int rondo_range_part(struct rondo_range *range, uint32_t index, struct rondo_range_part *part);

// Maps a part of another process's range, which has come with a descriptor; that may be closed afterwards. Parts come in
// order, with nothing between them. Returns as create, and RONDO_ERR_INVALID for what cannot be one.
int rondo_range_map(struct rondo_range *range, const struct rondo_range_part *part, char *why);

#endif // RONDO_RUNTIME_MEMORY_RANGE_H
