// How the failure of one call becomes that of the whole communicator, on all its members.
//
// When a collective of a communicator fails, for whatever reason, here or elsewhere, every end of that
// communicator in this process is marked, its processes are told, and all its collectives
// fail: also those that only one rank has. Everything is done under the lock of the job, and
// without recursion: ends that are marked wait in a list until rondo_comms_spread. A member that makes its end only then
// gets the failure, and the reason, with it.
#ifndef RONDO_RUNTIME_ORDER_SPREAD_H
#define RONDO_RUNTIME_ORDER_SPREAD_H

#include <stddef.h>
#include <stdint.h>

struct rondo_world;
struct rondo_party;
struct rondo_communicator;
struct rondo_comm_end;

// What failed last, for ends that are made later. No more than so many are kept.
#define RONDO_MOST_FAILURES 64u

// The party is a collective of its owner's, from when it is matched until it is not.
void rondo_comm_own(struct rondo_party *party);
void rondo_comm_disown(const struct rondo_party *party);

// A collective of the end's may have failed.
void rondo_comm_hear(struct rondo_world *world, struct rondo_comm_end *end,
                     const struct rondo_communicator *comm);

// The communicator has failed. Its first status stays. Returns 1 if this was the first that was heard.
int rondo_comm_mark(struct rondo_world *world, struct rondo_comm_end *end, int status,
                    const char *why);

// An end is there from now on: it has failed if its communicator has.
void rondo_comm_inherit(struct rondo_comm_end *end);

// Fails the collectives of all ends that are marked.
void rondo_comms_spread(struct rondo_world *world);

// It is known now where everybody is: tells of what has failed by then.
void rondo_comms_announce(struct rondo_world *world);

// Another process says that a communicator has failed. Returns 0 if no member sends such a thing.
int rondo_comms_receive(struct rondo_world *world, uint32_t process, const void *bytes,
                        size_t size);

#endif // RONDO_RUNTIME_ORDER_SPREAD_H
