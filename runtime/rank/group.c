#include "runtime/rank/group.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "runtime/job/job.h"
#include "runtime/rank/rank.h"

static int ranks_check(const struct rondo_rank *rank, const uint32_t *ranks, uint32_t count) {
  uint32_t total = rank->cfg.rank_count;
  uint8_t *seen = calloc(total, 1);
  if (!seen)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "group_create: no memory");
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < count && status == RONDO_SUCCESS; i++) {
    if (ranks[i] >= total)
      status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "group_create: rank %u of a job of %u", ranks[i],
                                total);
    else if (seen[ranks[i]]++)
      status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "group_create: rank %u twice", ranks[i]);
  }
  free(seen);
  return status;
}

int rondo_group_make(struct rondo_rank *rank, const uint32_t *ranks, uint32_t count,
                     struct rondo_group *group) {
  if (!ranks || !group || count == 0 || count > rank->cfg.rank_count)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "group_create: null argument, or %u ranks of a job of %u", count,
                            rank->cfg.rank_count);
  int status = ranks_check(rank, ranks, count);
  if (status != RONDO_SUCCESS)
    return status;
  const struct rondo_member_list *list = rondo_job_list(rank->job, ranks, count);
  struct rondo_group_entry *g = list ? malloc(sizeof *g) : NULL;
  if (!g)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "group_create: no memory");
  g->list = list;
  rondo_lock_take(&rank->lock);
  g->id = ++rank->next_group;
  g->next = rank->groups;
  rank->groups = g;
  rondo_lock_give(&rank->lock);
  group->handle = g->id;
  return RONDO_SUCCESS;
}

static struct rondo_group_entry *group_find(const struct rondo_rank *rank,
                                            struct rondo_group group) {
  struct rondo_group_entry *g = rank->groups;
  while (g && g->id != group.handle)
    g = g->next;
  return g;
}

int rondo_group_forget(struct rondo_rank *rank, struct rondo_group group) {
  rondo_lock_take(&rank->lock);
  struct rondo_group_entry *g = group_find(rank, group);
  if (g)
    RONDO_LIST_REMOVE(rank->groups, g, next);
  rondo_lock_give(&rank->lock);
  if (!g)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "group_destroy: unknown group");
  free(g);
  return RONDO_SUCCESS;
}

int rondo_group_list(struct rondo_rank *rank, struct rondo_group group,
                     const struct rondo_member_list **list) {
  const struct rondo_group_entry *g = group_find(rank, group);
  if (group.handle && !g)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "register: unknown group");
  *list = g ? g->list : rank->job->world;
  return RONDO_SUCCESS;
}

void rondo_groups_free(struct rondo_rank *rank) {
  while (rank->groups) {
    struct rondo_group_entry *g = rank->groups;
    rank->groups = g->next;
    free(g);
  }
}
