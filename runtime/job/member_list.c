#include "runtime/job/member_list.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "daemon/plan/plan_topology.h"

static uint64_t members_digest(const uint32_t *members, uint32_t nranks) {
  uint64_t digest = rondo_digest_mix(nranks + UINT64_C(0x9e3779b97f4a7c15));
  for (uint32_t i = 0; i < nranks; i++)
    digest = rondo_digest_mix(digest + members[i] + UINT64_C(0x9e3779b97f4a7c15));
  return digest;
}

static int list_compare(const void *a, const void *b) {
  uint64_t x = ((const struct rondo_member_list *)a)->digest;
  uint64_t y = ((const struct rondo_member_list *)b)->digest;
  return x < y ? -1 : x > y;
}

static int number_compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a;
  uint32_t y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static bool numbers_are_ascending(const uint32_t *numbers, uint32_t count) {
  for (uint32_t i = 1; i < count; i++)
    if (numbers[i - 1] >= numbers[i])
      return false;
  return true;
}

// The index of `wanted` in `numbers`, which ascend, or RONDO_NO_PLACE.
static uint32_t numbers_find(const uint32_t *numbers, uint32_t count, uint32_t wanted) {
  const uint32_t *found =
      count ? bsearch(&wanted, numbers, count, sizeof *numbers, number_compare) : NULL;
  return found ? (uint32_t)(found - numbers) : RONDO_NO_PLACE;
}

// ------------------------------------------------------------------- tables ---

static void list_free(void *node) {
  struct rondo_member_list *list = node;
  if (list->sorted != list->members)
    free(list->sorted);
  free(list->members);
  free(list->processes);
  rondo_plan_topology_destroy(list->topology);
  free(list);
}

void rondo_member_lists_init(struct rondo_member_lists *lists, uint32_t rank_count) {
  *lists = (struct rondo_member_lists){.rank_count = rank_count};
}

void rondo_member_lists_fini(struct rondo_member_lists *lists) {
  tdestroy(lists->tree, list_free);
  lists->tree = NULL;
  lists->last = NULL;
}

// Makes the list of the processes of the members.
static bool list_locate(struct rondo_member_list *list, const uint32_t *process_of) {
  uint32_t *processes = malloc(list->nranks * sizeof *processes);
  if (!processes)
    return false;
  uint32_t count = 0;
  bool is_ascending = true;
  for (uint32_t i = 0; i < list->nranks; i++) {
    uint32_t process = process_of[list->sorted[i]];
    if (process == UINT32_MAX || (count && processes[count - 1] == process))
      continue;
    is_ascending = is_ascending && (!count || processes[count - 1] < process);
    processes[count++] = process;
  }
  if (!is_ascending) {
    qsort(processes, count, sizeof *processes, number_compare);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < count; i++)
      if (processes[i] != processes[kept - 1])
        processes[kept++] = processes[i];
    count = kept;
  }
  list->processes = processes;
  list->process_count = count;
  return true;
}

struct location {
  const uint32_t *process_of;
  bool is_whole;
};

static void node_locate(const void *node, VISIT order, void *arg) {
  struct location *to = arg;
  struct rondo_member_list *list = *(struct rondo_member_list *const *)node;
  if ((order == postorder || order == leaf) && !list->processes)
    to->is_whole = list_locate(list, to->process_of) && to->is_whole;
}

bool rondo_member_lists_locate(struct rondo_member_lists *lists, const uint32_t *process_of) {
  struct location to = {process_of, true};
  lists->process_of = process_of;
  twalk_r(lists->tree, node_locate, &to);
  return to.is_whole;
}

struct rondo_member_list *rondo_member_lists_find(const struct rondo_member_lists *lists,
                                                  uint64_t digest) {
  const struct rondo_member_list key = {.digest = digest};
  struct rondo_member_list **found = tfind(&key, &lists->tree, list_compare);
  return found ? *found : NULL;
}

static struct rondo_member_list *list_make(const uint32_t *members, uint32_t nranks,
                                           uint64_t digest, const uint32_t *process_of) {
  struct rondo_member_list *list = calloc(1, sizeof *list);
  if (!list)
    return NULL;
  list->digest = digest;
  list->nranks = nranks;
  list->members = malloc(nranks * sizeof *members);
  if (list->members)
    memcpy(list->members, members, nranks * sizeof *members);
  list->sorted = list->members;
  if (list->members && !numbers_are_ascending(members, nranks)) {
    list->sorted = malloc(nranks * sizeof *members);
    if (list->sorted) {
      memcpy(list->sorted, members, nranks * sizeof *members);
      qsort(list->sorted, nranks, sizeof *members, number_compare);
    }
  }
  if (list->members && list->sorted && (!process_of || list_locate(list, process_of)))
    return list;
  list_free(list);
  return NULL;
}

struct rondo_member_list *rondo_member_lists_get(struct rondo_member_lists *lists,
                                                 const uint32_t *members, uint32_t nranks) {
  if (lists->last && lists->last->members == members && lists->last->nranks == nranks)
    return lists->last;
  uint64_t digest = members_digest(members, nranks);
  struct rondo_member_list *list = rondo_member_lists_find(lists, digest);
  if (list) {
    bool is_same =
        list->nranks == nranks && memcmp(list->members, members, nranks * sizeof *members) == 0;
    lists->last = is_same ? list : NULL;
    return lists->last;
  }
  list = list_make(members, nranks, digest, lists->process_of);
  if (!list)
    return NULL;
  if (!tsearch(list, &lists->tree, list_compare)) {
    list_free(list);
    return NULL;
  }
  return list;
}

struct rondo_member_list *rondo_member_lists_get_all(struct rondo_member_lists *lists) {
  uint32_t *ranks = malloc(lists->rank_count * sizeof *ranks);
  for (uint32_t i = 0; i < lists->rank_count && ranks; i++)
    ranks[i] = i;
  struct rondo_member_list *list =
      ranks ? rondo_member_lists_get(lists, ranks, lists->rank_count) : NULL;
  free(ranks);
  return list;
}

bool rondo_member_list_has(const struct rondo_member_list *list, uint32_t rank) {
  return numbers_find(list->sorted, list->nranks, rank) != RONDO_NO_PLACE;
}

uint32_t rondo_member_list_place(const struct rondo_member_list *list, uint32_t process) {
  return numbers_find(list->processes, list->process_count, process);
}

// ------------------------------------------------------------------- ranges ---

uint32_t rondo_member_list_ranges(const struct rondo_member_list *list, uint32_t *at,
                                  struct rondo_member_range *ranges, uint32_t capacity) {
  uint32_t count = 0;
  uint32_t i = *at;
  while (i < list->nranks && count < capacity) {
    const uint32_t *m = list->members;
    uint32_t end = i + 1;
    uint32_t stride = end < list->nranks ? m[end] - m[i] : 1;
    while (end < list->nranks && m[end] - m[end - 1] == stride)
      end++;
    ranges[count++] =
        (struct rondo_member_range){.first = m[i], .count = end - i, .stride = (int32_t)stride};
    i = end;
  }
  *at = i;
  return count;
}

bool rondo_member_ranges_expand(const struct rondo_member_range *ranges, uint32_t range_count,
                                uint32_t rank_count, uint32_t *members, uint32_t nranks,
                                uint32_t *filled) {
  for (uint32_t i = 0; i < range_count; i++) {
    uint32_t rank = ranges[i].first;
    if (ranges[i].count == 0 || ranges[i].count > nranks - *filled)
      return false;
    for (uint32_t k = 0; k < ranges[i].count; k++) {
      if (rank >= rank_count)
        return false;
      members[(*filled)++] = rank;
      rank += (uint32_t)ranges[i].stride;
    }
  }
  return true;
}

bool rondo_members_are_distinct(const uint32_t *members, uint32_t nranks) {
  if (numbers_are_ascending(members, nranks))
    return true;
  uint32_t *sorted = malloc(nranks * sizeof *sorted);
  if (!sorted)
    return false;
  memcpy(sorted, members, nranks * sizeof *sorted);
  qsort(sorted, nranks, sizeof *sorted, number_compare);
  bool are_distinct = numbers_are_ascending(sorted, nranks);
  free(sorted);
  return are_distinct;
}
