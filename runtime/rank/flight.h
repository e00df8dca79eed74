// The flight record: what a rank did last, always kept, written when it is asked for.
//
//   rondo_flight_add ... -> rondo_flight_at
//
// A ring of the last RONDO_FLIGHT_EVENTS events, guarded by the rank's lock, which whoever has
// something to add holds anyway. A run is one event, which is completed as the run goes on. What is
// added costs some stores and a stamp of the time.
#ifndef RONDO_RUNTIME_RANK_FLIGHT_H
#define RONDO_RUNTIME_RANK_FLIGHT_H

#include <stdint.h>

#include "base/clock.h"
#include <rondo/rondo.h>

#define RONDO_FLIGHT_EVENTS 1024u

enum rondo_flight_what {
  RONDO_FLIGHT_REGISTERED = 0,
  RONDO_FLIGHT_RUN = 1, // submitted, and what became of it
  RONDO_FLIGHT_DEREGISTERED = 2,
  RONDO_FLIGHT_STARTED = 3, // a block of the daemon; value: which
  RONDO_FLIGHT_QUIT = 4,    // likewise
  RONDO_FLIGHT_TIMEOUT = 5, // a wait for a run
  RONDO_FLIGHT_ABORTED = 6  // the rank was
};

// What is said of a collective with each of its events, made once.
struct rondo_flight_tag {
  uint64_t id, handle;
  uint64_t count;
  uint32_t group; // the same number on all its ranks; 0: all ranks in order
  uint32_t root;
  uint32_t kind;
  uint16_t dtype, redop;
};

// 0: not yet.
struct rondo_flight_event {
  struct rondo_flight_tag tag; // all zero where no collective is meant
  uint64_t at_ns;              // of a run: when it was submitted
  uint64_t pushed_ns;          // of a run: when it was given to the device
  uint64_t ended_ns;           // of a run
  uint64_t run;
  uint32_t device_ns; // of a run that has ended: the time on the device
  uint16_t value;     // of a run that has ended: its status
  uint16_t what;      // enum rondo_flight_what
};

// Zeroed memory.
struct rondo_flight {
  uint64_t added; // events so far
  struct rondo_stamp clock;
  struct rondo_flight_event events[RONDO_FLIGHT_EVENTS];
};

// The tag of a collective: `members` are the ranks of its group, of `rank_count` of the job.
struct rondo_flight_tag rondo_flight_tag_make(const struct rondo_collective_desc *desc,
                                              uint64_t handle, const uint32_t *members,
                                              uint32_t member_count, uint32_t rank_count);

// Adds an event of now; `tag` may be null. It may be completed until the next one is added.
struct rondo_flight_event *rondo_flight_add(struct rondo_flight *f, int what,
                                            const struct rondo_flight_tag *tag);
// The same for what began at `at_ns`, a stamp of the record's clock.
struct rondo_flight_event *rondo_flight_add_at(struct rondo_flight *f, int what,
                                               const struct rondo_flight_tag *tag, uint64_t at_ns);

// The event of that number, from 1; null if the ring has it no more, or not yet.
struct rondo_flight_event *rondo_flight_at(struct rondo_flight *f, uint64_t number);

#endif // RONDO_RUNTIME_RANK_FLIGHT_H
