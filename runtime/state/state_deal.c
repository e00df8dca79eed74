#include "runtime/state/state_deal.h"

#include <stdbool.h>
#include <stdlib.h>

// One block that this member sends or receives.
struct item {
  uint32_t from, to;
  uint64_t block;
};

struct dealing {
  const uint8_t *maps;
  uint32_t members, self;
  const struct rondo_state_layout *layout;
  size_t map_bytes;
  uint64_t *loads; // bytes that each member sends
  struct item *items;
  size_t count, capacity;
};

static bool member_lacks(const struct dealing *d, uint32_t member, uint64_t block) {
  return rondo_state_map_get(d->maps + member * d->map_bytes, block);
}

// Returns the member that sends a block to `to`, or UINT32_MAX if no member has it.
static uint32_t sender_choose(const struct dealing *d, uint64_t block, uint32_t to) {
  uint32_t chosen = UINT32_MAX;
  uint32_t found = 0;
  for (uint32_t i = 1; i < d->members && found < RONDO_STATE_SENDERS; i++) {
    uint32_t from = (uint32_t)(((uint64_t)to + i) % d->members);
    if (member_lacks(d, from, block))
      continue;
    if (chosen == UINT32_MAX || d->loads[from] < d->loads[chosen])
      chosen = from;
    found++;
  }
  return chosen;
}

static int item_add(struct dealing *d, const struct item *item) {
  if (d->count == d->capacity) {
    size_t capacity = d->capacity ? 2 * d->capacity : 256;
    struct item *items = realloc(d->items, capacity * sizeof *items);
    if (!items)
      return RONDO_ERR_NO_MEMORY;
    d->items = items;
    d->capacity = capacity;
  }
  d->items[d->count++] = *item;
  return RONDO_SUCCESS;
}

// Deals out one block. Keeps what this member has to do with it.
static int block_deal(struct dealing *d, uint64_t block) {
  uint64_t bytes = rondo_state_layout_block(d->layout, block).bytes;
  int status = RONDO_SUCCESS;
  for (uint32_t to = 0; to < d->members && status == RONDO_SUCCESS; to++) {
    if (!member_lacks(d, to, block))
      continue;
    const struct item item = {sender_choose(d, block, to), to, block};
    if (item.from == UINT32_MAX)
      return RONDO_ERR_INTERNAL;
    d->loads[item.from] += bytes;
    if (item.from == d->self || to == d->self)
      status = item_add(d, &item);
  }
  return status;
}

static int item_compare(const void *a, const void *b) {
  const struct item *x = a;
  const struct item *y = b;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  if (x->to != y->to)
    return x->to < y->to ? -1 : 1;
  return x->block < y->block ? -1 : x->block > y->block;
}

static int parcel_compare(const void *a, const void *b) {
  const struct rondo_state_parcel *x = a;
  const struct rondo_state_parcel *y = b;
  if (x->number != y->number)
    return x->number < y->number ? -1 : 1;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

// Puts the items, which are sorted, into parcels.
static void items_pack(const struct dealing *d, struct rondo_state_deal *deal) {
  struct rondo_state_parcel *p = NULL;
  for (size_t i = 0; i < d->count; i++) {
    const struct item *item = &d->items[i];
    uint64_t bytes = rondo_state_layout_block(d->layout, item->block).bytes;
    bool is_same_pair = p && p->from == item->from && p->to == item->to;
    if (!is_same_pair && item->to == d->self)
      deal->senders++;
    if (!is_same_pair || p->bytes + bytes > RONDO_STATE_BLOCK_BYTES) {
      uint64_t number = is_same_pair ? p->number + 1 : 0;
      p = &deal->parcels[deal->parcel_count++];
      *p = (struct rondo_state_parcel){
          .from = item->from, .to = item->to, .number = number, .first = i};
    }
    p->count++;
    p->bytes += bytes;
    deal->blocks[i] = item->block;
  }
}

int rondo_state_deal_make(const uint8_t *maps, uint32_t members,
                          const struct rondo_state_layout *layout, uint32_t self,
                          struct rondo_state_deal *deal) {
  struct dealing d = {.maps = maps,
                      .members = members,
                      .self = self,
                      .layout = layout,
                      .map_bytes = rondo_state_map_bytes(layout->block_count),
                      .loads = calloc(members, sizeof *d.loads)};
  struct rondo_state_deal made = {0};
  int status = d.loads ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  for (uint64_t block = 0; block < layout->block_count && status == RONDO_SUCCESS; block++)
    status = block_deal(&d, block);
  if (status == RONDO_SUCCESS && d.count) {
    qsort(d.items, d.count, sizeof *d.items, item_compare);
    made.parcels = calloc(d.count, sizeof *made.parcels);
    made.blocks = calloc(d.count, sizeof *made.blocks);
    status = made.parcels && made.blocks ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  }
  if (status == RONDO_SUCCESS && d.count) {
    items_pack(&d, &made);
    qsort(made.parcels, made.parcel_count, sizeof *made.parcels, parcel_compare);
  }
  free(d.items);
  free(d.loads);
  if (status == RONDO_SUCCESS)
    *deal = made;
  else
    rondo_state_deal_fini(&made);
  return status;
}

void rondo_state_deal_fini(struct rondo_state_deal *deal) {
  free(deal->parcels);
  free(deal->blocks);
  *deal = (struct rondo_state_deal){0};
}
