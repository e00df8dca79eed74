// What a lane knows: for each agent, up to which clock its accesses come before what the lane does
// next. A view is a vector clock that does not change; lanes, fences and writes share it.
//
// All lanes of an agent share one clock, but a release of one lane covers only the lane's own
// accesses. So a view has a clock for all lanes of an agent, and a later one for single lanes.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_VIEW_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct ptx_view_entry {
  uint32_t key; // ptx_view_all or ptx_view_lane
  uint32_t clock;
};

// NULL is the empty view. Entries are sorted by key. A lane's entry is later than its agent's.
struct ptx_view {
  uint32_t references;
  uint32_t count;
  struct ptx_view_entry entries[];
};

static inline uint32_t ptx_view_all(uint32_t agent) { return agent << 6; }
static inline uint32_t ptx_view_lane(uint32_t agent, uint32_t lane) {
  return agent << 6 | (lane + 1);
}

// Memory that is never NULL: the process aborts instead.
void *ptx_allocate(uint64_t bytes);
void *ptx_reallocate(void *old, uint64_t bytes);

static inline struct ptx_view *ptx_view_hold(struct ptx_view *view) {
  if (view)
    view->references++;
  return view;
}
void ptx_view_drop(struct ptx_view *view);

// Whether all accesses that these lanes made up to `clock` are known.
bool ptx_view_knows(const struct ptx_view *view, uint32_t agent, uint32_t lanes, uint32_t clock);
// Whether all that `other` knows is known.
bool ptx_view_includes(const struct ptx_view *view, const struct ptx_view *other);

// These return a view that the caller drops. It knows what both know; what both agree on; what
// `view` knows, and an agent's or a lane's accesses up to `clock`.
struct ptx_view *ptx_view_join(struct ptx_view *one, struct ptx_view *two);
struct ptx_view *ptx_view_common(const struct ptx_view *one, const struct ptx_view *two);
struct ptx_view *ptx_view_with(struct ptx_view *view, uint32_t key, uint32_t clock);

// Makes `*view` know what `other` knows too.
void ptx_view_learn(struct ptx_view **view, struct ptx_view *other);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_VIEW_H
