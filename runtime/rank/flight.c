// The ring of the flight record.
#include "runtime/rank/flight.h"

#include <stdbool.h>

static bool is_whole_job(const uint32_t *members, uint32_t member_count, uint32_t rank_count) {
  for (uint32_t i = 0; i < member_count; i++)
    if (members[i] != i)
      return false;
  return member_count == rank_count;
}

// A group's number in the record is made from its members, so that it is the same on all ranks.
static uint32_t group_hash(const uint32_t *members, uint32_t member_count, uint32_t rank_count) {
  uint32_t hash = 2166136261u;
  if (is_whole_job(members, member_count, rank_count))
    return 0;
  for (uint32_t i = 0; i < member_count; i++)
    hash = (hash ^ members[i]) * 16777619u;
  return hash ? hash : 1;
}

struct rondo_flight_tag rondo_flight_tag_make(const struct rondo_collective_desc *desc,
                                              uint64_t handle, const uint32_t *members,
                                              uint32_t member_count, uint32_t rank_count) {
  struct rondo_flight_tag tag = {.id = desc->id, .handle = handle, .count = desc->count};
  tag.group = group_hash(members, member_count, rank_count);
  tag.root = desc->root;
  tag.kind = (uint16_t)desc->kind;
  tag.dtype = (uint16_t)desc->dtype;
  tag.redop = (uint16_t)desc->redop;
  return tag;
}

struct rondo_flight_event *rondo_flight_add(struct rondo_flight *f, int what,
                                            const struct rondo_flight_tag *tag) {
  return rondo_flight_add_at(f, what, tag, rondo_stamp_ns(&f->clock));
}

struct rondo_flight_event *rondo_flight_add_at(struct rondo_flight *f, int what,
                                               const struct rondo_flight_tag *tag, uint64_t at_ns) {
  static const struct rondo_flight_tag none;
  struct rondo_flight_event *e = &f->events[++f->added % RONDO_FLIGHT_EVENTS];
  e->tag = tag ? *tag : none;
  e->at_ns = at_ns;
  e->pushed_ns = e->ended_ns = e->run = 0;
  e->device_ns = 0;
  e->value = 0;
  e->what = (uint16_t)what;
  return e;
}

struct rondo_flight_event *rondo_flight_at(struct rondo_flight *f, uint64_t number) {
  if (number == 0 || number > f->added || f->added - number >= RONDO_FLIGHT_EVENTS)
    return NULL;
  return &f->events[number % RONDO_FLIGHT_EVENTS];
}
