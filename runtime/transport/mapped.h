// Processes of this machine map each other's memory.
//
// Each process maps the arena of every other one. Some devices cannot use that memory as it is.
// For them connectors lie in one of two more places: the range, which is device memory that the
// other process maps, or the window of NCCL. The range is made before any daemon runs, because
// allocating device memory may wait for daemons. A new part of the range is sent to the peers
// before the next message. Each peer answers how much it has mapped. Registrations wait for the
// first answers, which decide where connectors lie. Without a range that the peer maps, connectors
// lie in the arena, which both sides page-lock.
//
// Part of transports.h: the caller holds the job's lock.
#ifndef RONDO_RUNTIME_TRANSPORT_MAPPED_H
#define RONDO_RUNTIME_TRANSPORT_MAPPED_H

#include <stdbool.h>

#include "runtime/transport/transports.h"

struct rondo_message_part {
  uint64_t at, bytes; // of the sender's range
};

struct rondo_message_mapped {
  uint64_t bytes;      // of the receiver's range, from its beginning
  uint64_t is_refused; // 1: no more than this will be mapped
};

// Makes the memory that devices share with processes of this machine, if they share any.
void rondo_mapped_open(struct rondo_transports *t);
// Gives one more device of this process access to the range. The lock is not held.
void rondo_mapped_admit(struct rondo_transports *t, struct rondo_device *device);

// Sends our arena; sends the parts of our range that were not sent to the process yet.
void rondo_mapped_introduce(struct rondo_transports *t, uint32_t process);
void rondo_mapped_introduce_parts(struct rondo_transports *t, uint32_t process);

// Maps the arena of a process. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, or what rondo_arena_map
// returns.
int rondo_mapped_map(struct rondo_transports *t, uint32_t process,
                     const struct rondo_message_arena *theirs, int fd);
// Reserves addresses for the range of a process whose arena has been mapped. Releases the lock
// meanwhile.
void rondo_mapped_open_view(struct rondo_transports *t, uint32_t process);
// Receive a part of a peer's range, and a peer's answer to our parts. Both return 0 if no member
// sends such a message. The first releases the lock meanwhile.
int rondo_mapped_receive_part(struct rondo_transports *t,
                              const struct rondo_transport_arrival *arrival);
int rondo_mapped_receive_answer(struct rondo_transports *t,
                                const struct rondo_transport_arrival *arrival);
// Unmaps the memory of a process. The driver may wait for the device: called without the lock.
void rondo_mapped_unmap(struct rondo_transport_peer *peer);
// Unmaps it, and frees what is known of its mapping.
void rondo_mapped_forget(struct rondo_transport_peer *peer);
// Unmaps the memory of a lost process that nothing here uses any more, or has rondo_mapped_work do
// so.
void rondo_mapped_leave(struct rondo_transports *t, struct rondo_transport_peer *peer);

// What is left to be done on devices: memory of processes to page-lock or to unmap. Does some of
// it. Returns false if nothing was left, else true; then links that wait can be bound. Releases the
// lock meanwhile.
bool rondo_mapped_work(struct rondo_transports *t);

// True once it is known where connectors that the process uses may lie.
bool rondo_mapped_is_settled(const struct rondo_transports *t, uint32_t process);
// True once the memory that the process had when it said where it is has been mapped here, and it
// has answered the same for ours: links between both need no more calls of the driver, except for
// memory that comes later, and for arenas.
bool rondo_mapped_is_complete(const struct rondo_transports *t, uint32_t process);
// Where they may lie besides the arena: RONDO_MAPS_RANGE, RONDO_MAPS_WINDOW, both or neither.
int rondo_mapped_places(const struct rondo_transports *t, uint32_t process);
// True once the process has answered whether it maps all parts that were sent to it.
bool rondo_mapped_is_bindable(const struct rondo_transports *t, uint32_t process);

// The memory here that the process can read, for connectors in a place of `kind` (enum
// rondo_place_kind): [*begin, *end).
void rondo_mapped_exported(const struct rondo_transports *t, uint32_t process, int kind,
                           uint64_t *begin, uint64_t *end);
// What to add to an address of the process to get ours, for connectors in such a place.
uint64_t rondo_mapped_bias(const struct rondo_transports *t, uint32_t process, int kind);
// Where our memory of that kind begins; offers are offsets from there.
uint64_t rondo_mapped_base(const struct rondo_transports *t, int kind);
// Finds `bytes` at distance `at` in the process's memory of that kind, as mapped here. Null: there
// is no such memory; or, with `*waits` true, rondo_mapped_work has to page-lock it first.
void *rondo_mapped_find(struct rondo_transports *t, uint32_t process, int kind, uint64_t at,
                        uint64_t bytes, bool *waits);

// As rondo_transports_explain, for devices that share memory.
int rondo_mapped_explain(const struct rondo_transports *t, uint32_t process, char *why,
                         size_t why_bytes);

#endif // RONDO_RUNTIME_TRANSPORT_MAPPED_H
