// The flight record: the last events of a rank. It is always kept.
//
//   rondo_flight_add ... -> rondo_flight_at
//
// The rank's lock guards the ring of RONDO_FLIGHT_EVENTS events. A run is one event, whose fields
// are filled in as the run proceeds. Adding an event costs a few stores and a time stamp.
#ifndef RONDO_RUNTIME_RANK_FLIGHT_H
#define RONDO_RUNTIME_RANK_FLIGHT_H

#include <stdint.h>

#include "base/clock.h"
#include <rondo/rondo.h>

#define RONDO_FLIGHT_EVENTS 1024u

enum rondo_flight_what {
  RONDO_FLIGHT_REGISTERED = 0,
  RONDO_FLIGHT_RUN = 1, // submitted; later also pushed and ended
  RONDO_FLIGHT_DEREGISTERED = 2,
  RONDO_FLIGHT_STARTED = 3, // a block of the daemon started; value: its number
  RONDO_FLIGHT_QUIT = 4,    // a block of the daemon quit; value: its number
  RONDO_FLIGHT_TIMEOUT = 5, // a wait for a run timed out
  RONDO_FLIGHT_ABORTED = 6  // the rank was aborted
};

// Describes the collective of an event. Made once, at registration.
struct rondo_flight_tag {
  uint64_t id, handle;
  uint64_t count;
  uint32_t group; // the same number on all its ranks; 0: all ranks in order
  uint32_t root;
  uint16_t kind;
  uint8_t algorithm; // enum rondo_algorithm
  uint8_t rule;      // why this one: enum rondo_plan_rule; RONDO_PLAN_RULE_COUNT: no plan yet
  uint16_t dtype, redop;
};

struct rondo_flight_event {
  struct rondo_flight_tag tag; // zero for events of no collective
  uint64_t at_ns;              // of a run: when it was submitted
  uint64_t pushed_ns;          // of a run: when it was pushed to the device; 0: not yet
  uint64_t ended_ns;           // of a run; 0: not yet
  uint64_t run;
  uint32_t device_ns; // of an ended run: the time on the device
  uint16_t value;     // of an ended run: its status
  uint16_t what;      // enum rondo_flight_what
};

// Starts as zeroed memory.
struct rondo_flight {
  uint64_t added; // events so far
  struct rondo_stamp clock;
  struct rondo_flight_event events[RONDO_FLIGHT_EVENTS];
};

// Makes the tag of a collective. `members` are the ranks of its group; the job has `rank_count`.
struct rondo_flight_tag rondo_flight_tag_make(const struct rondo_collective_desc *desc,
                                              uint64_t handle, const uint32_t *members,
                                              uint32_t member_count, uint32_t rank_count);

// Adds an event that happens now; `tag` may be null. The caller may fill in the event until the
// next one is added.
struct rondo_flight_event *rondo_flight_add(struct rondo_flight *f, int what,
                                            const struct rondo_flight_tag *tag);
// Adds an event that happened at `at_ns`, a stamp of the record's clock.
struct rondo_flight_event *rondo_flight_add_at(struct rondo_flight *f, int what,
                                               const struct rondo_flight_tag *tag, uint64_t at_ns);

// The event of that number, from 1; null if the ring no longer holds it or has no such event yet.
struct rondo_flight_event *rondo_flight_at(struct rondo_flight *f, uint64_t number);

#endif // RONDO_RUNTIME_RANK_FLIGHT_H
