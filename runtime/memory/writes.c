#include "runtime/memory/writes.h"

#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

static void writes_append(struct rondo_writes *list, struct rondo_write *write) {
  if (list->last)
    list->last->next = write;
  else
    list->first = write;
  list->last = write;
}

int rondo_writes_add(struct rondo_writes *list, struct rondo_place at, uint32_t rank, void *to,
                     const void *from, uint64_t bytes) {
  if (rondo_place_is_direct(at))
    return rondo_place_write(at, to, from, bytes);
  struct rondo_write *write = malloc(sizeof *write + bytes);
  if (!write)
    return RONDO_ERR_NO_MEMORY;
  *write = (struct rondo_write){NULL, at, rank, to, bytes};
  memcpy(write->data, from, bytes);
  writes_append(list, write);
  return RONDO_SUCCESS;
}

struct rondo_write *rondo_writes_take(struct rondo_writes *list) {
  struct rondo_write *writes = list->first;
  *list = (struct rondo_writes){NULL, NULL};
  return writes;
}

void rondo_writes_drop(struct rondo_writes *list, const void *memory, uint64_t bytes) {
  struct rondo_write *writes = rondo_writes_take(list);
  while (writes) {
    struct rondo_write *write = writes;
    writes = write->next;
    write->next = NULL;
    if ((uintptr_t)write->to - (uintptr_t)memory < bytes)
      free(write);
    else
      writes_append(list, write);
  }
}

int rondo_writes_carry_out(struct rondo_write *writes, uint32_t *rank) {
  int status = RONDO_SUCCESS;
  while (writes) {
    struct rondo_write *write = writes;
    writes = write->next;
    if (status == RONDO_SUCCESS) {
      status = rondo_place_write(write->at, write->to, write->data, write->bytes);
      *rank = write->rank;
    }
    free(write);
  }
  return status;
}

void rondo_writes_free(struct rondo_write *writes) {
  while (writes) {
    struct rondo_write *write = writes;
    writes = write->next;
    free(write);
  }
}
