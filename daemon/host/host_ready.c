// Ready bytes of the process's blocks.
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/host/host.h"
#include "daemon/host/host_ready.h"

#define GROUPS 1024u // of RONDO_HOST_GROUP_BLOCKS blocks

static pthread_rwlock_t groups_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
// guarded by groups_lock
static struct rondo_host_group *groups[GROUPS];
static uint32_t group_count;

void rondo_host_ready_forget(void) {
  groups_lock = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
  group_count = 0;
  memset(groups, 0, sizeof groups);
}

// The group, allocated on first use. Null: no memory.
static struct rondo_host_group *group_get(uint32_t g) {
  if (!groups[g])
    groups[g] = rondo_memory_alloc(sizeof *groups[g]);
  if (groups[g] && g >= group_count)
    group_count = g + 1;
  return groups[g];
}

// Puts the block at place `at`. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, or RONDO_ERR_FULL
// (taken).
static int group_place(struct rondo_host_block *block, uint32_t at) {
  struct rondo_host_group *group = group_get(at / RONDO_HOST_GROUP_BLOCKS);
  uint32_t i = at % RONDO_HOST_GROUP_BLOCKS;
  if (!group)
    return RONDO_ERR_NO_MEMORY;
  if (group->blocks[i])
    return RONDO_ERR_FULL;
  group->blocks[i] = block;
  if (i >= group->end)
    group->end = i + 1;
  block->ready = &group->ready[i];
  rondo_store_release_u8(block->ready, 1);
  return RONDO_SUCCESS;
}

int rondo_host_ready_add(struct rondo_host_block *block, uint32_t hint) {
  uint32_t places = GROUPS * RONDO_HOST_GROUP_BLOCKS;
  pthread_rwlock_wrlock(&groups_lock);
  int status = group_place(block, hint % places);
  for (uint32_t at = 0; at < places && status == RONDO_ERR_FULL; at++)
    status = group_place(block, at);
  pthread_rwlock_unlock(&groups_lock);
  return status;
}

static void group_remove(struct rondo_host_group *group, const struct rondo_host_block *block) {
  for (uint32_t i = 0; i < group->end; i++)
    if (group->blocks[i] == block)
      group->blocks[i] = NULL;
  while (group->end && !group->blocks[group->end - 1])
    group->end--;
}

void rondo_host_ready_remove(struct rondo_host_block *block) {
  pthread_rwlock_wrlock(&groups_lock);
  for (uint32_t g = 0; g < group_count; g++)
    if (groups[g])
      group_remove(groups[g], block);
  pthread_rwlock_unlock(&groups_lock);
}

static bool group_visit(const struct rondo_host_group *group,
                        bool (*visit)(struct rondo_host_block *block, void *arg), void *arg,
                        bool all) {
  bool did = false;
  for (uint32_t i = 0; i < group->end; i++)
    if ((all || rondo_load_relaxed_u8(&group->ready[i])) && group->blocks[i])
      did |= visit(group->blocks[i], arg);
  return did;
}

bool rondo_host_ready_visit(bool (*visit)(struct rondo_host_block *block, void *arg), void *arg,
                            bool all) {
  bool did = false;
  if (pthread_rwlock_tryrdlock(&groups_lock))
    return false;
  for (uint32_t g = 0; g < group_count; g++)
    if (groups[g])
      did |= group_visit(groups[g], visit, arg, all);
  pthread_rwlock_unlock(&groups_lock);
  return did;
}
