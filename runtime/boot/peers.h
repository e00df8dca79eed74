// The other processes of a job: what is sent to them, what comes from them, and their end.
// Part of the world: see world.h. Unless said otherwise the caller holds the lock of the job.
#ifndef RONDO_RUNTIME_BOOT_PEERS_H
#define RONDO_RUNTIME_BOOT_PEERS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/boot/meeting.h"
#include "runtime/boot/notice.h"
#include "runtime/boot/world.h"
#include "runtime/transport/proxy.h"

// Another process of the job. Its memory is mapped once and for all; the mapping ends when the
// process is gone and no link needs it any more.
struct rondo_peer {
  uint8_t reach;      // enum rondo_transport: shared memory, UCX, or none
  uint8_t is_greeted; // has been told of our arena
  uint8_t is_lost;
  uint8_t is_doomed; // about to be given up
  uint8_t is_broken; // the proxy does not reach it any more
  uint64_t base;     // of its arena, where it maps it
  uint64_t bytes;    // of its arena
  void *map;         // of its arena, here; null: not mapped
  // Of devices, where they cannot use its arena as it is: near.c.
  uint8_t is_settled;              // it is known how it maps our range
  uint8_t refuses_range;           // it maps no more of it
  uint32_t parts_told;             // of our range, and how far they go ...
  uint64_t told, mapped;           // ... of which it has mapped so much
  struct rondo_notice_hello hello; // its own
  struct rondo_range *view;        // its range, here; null: not mapped
  uint64_t view_bytes;             // as far as it is mapped
  struct rondo_pins pins;          // of `map`
  char no_view[RONDO_WHY_BYTES];   // why there is none, or no more of it
  uint32_t links;                  // that use it
  uint32_t bell;                   // its number among those of the job here, plus 1; 0: it has none
  uint64_t mark;                   // last round of messages that went there
  uint64_t asked_ns;               // unanswered since then; 0: no question is open
};

// Begins to join the job. Returns what rondo_mesh_start and rondo_arena_create do.
int rondo_peers_open(struct rondo_world *world, const struct rondo_config *cfg);
// Ends it. The lock is not held, and no rank is left. `join_ns`: see rondo_world_leave.
void rondo_peers_close(struct rondo_world *world, int64_t join_ns);

// The process of a rank: RONDO_HERE, RONDO_SOMEWHERE, or its number.
uint32_t rondo_peers_where(const struct rondo_world *world, uint32_t rank);

// How this process reaches a rank: enum rondo_transport, or -1 if it is not known yet; and why.
int rondo_peers_transport(const struct rondo_world *world, const struct rondo_rank *self,
                          uint32_t rank, char *why, size_t why_bytes);

// A notice about the party's registration.
static inline struct rondo_notice_short rondo_notice_about(const struct rondo_party *party) {
  struct rondo_notice_short notice = {.id = party->desc->id, .generation = party->generation};
  notice.space = party->desc->reserved;
  return notice;
}

// Tells the processes of the party's other members, each once. `size` bytes at `bytes`.
void rondo_peers_tell(struct rondo_world *world, const struct rondo_party *party, uint32_t type,
                      const void *bytes, size_t size);
// Tells one process.
void rondo_peers_send(struct rondo_world *world, uint32_t process, uint32_t type, const void *bytes,
                      size_t size);

// Tells them of a registration, with the connectors that it offers, and if it has failed.
void rondo_peers_announce(struct rondo_world *world, struct rondo_party *party);
// Tells them that it is over.
void rondo_peers_withdraw(struct rondo_world *world, struct rondo_party *party, uint64_t completed);

// Tells of the registrations that were over before the roster.
void rondo_peers_tell_early(struct rondo_world *world);

// Goes on without a process, as if it were lost.
void rondo_peers_give_up(struct rondo_world *world, uint32_t process);
// The same a moment later, for callers in the middle of something.
void rondo_peers_doom(struct rondo_world *world, uint32_t process);

// A link to the process needs its memory no more.
void rondo_peers_unuse(struct rondo_world *world, uint32_t process);

// Wakes the blocks of the members that are here: their gate has changed.
void rondo_peers_wake(struct rondo_world *world, const struct rondo_communicator *comm);

// Greets the process, and tells it of the parts of our range that are new.
void rondo_peers_greet(struct rondo_world *world, uint32_t process);

// ------------------------------------------------------------------- near.c ---

// Makes what devices share with processes of this machine, if they do.
void rondo_near_open(struct rondo_world *world);
// One more device of the world.
void rondo_near_admit(struct rondo_world *world, struct rondo_device *device);
// Fills in what a greeting says of the range.
void rondo_near_describe(const struct rondo_world *world, struct rondo_notice_hello *hello);
// The next part of which the process has not been told. Returns 1, or 0 if there is none.
int rondo_near_next_part(const struct rondo_world *world, uint32_t process,
                         struct rondo_range_part *part);
// 1 if it is known where connectors to be used by that process shall lie.
int rondo_near_is_settled(const struct rondo_world *world, uint32_t process);
// Where they may lie: RONDO_MAPS_RANGE, RONDO_MAPS_WINDOW, both, or neither.
int rondo_near_maps(const struct rondo_world *world, uint32_t process);
// 1 unless the process has been told of parts that it has not answered for.
int rondo_near_is_bindable(const struct rondo_world *world, uint32_t process);
// It has said hello.
void rondo_near_meet(struct rondo_world *world, uint32_t process);
// A part of its range has come; its answer to one of ours. Return 1, or 0 if no member sends such a thing.
int rondo_near_part(struct rondo_world *world, const struct rondo_mesh_message *message);
int rondo_near_answer(struct rondo_world *world, const struct rondo_mesh_message *message);
// Where connectors of `bytes` that it offers are here. Null: nowhere.
void *rondo_near_find(struct rondo_world *world, uint32_t process, const struct rondo_offer *offer,
                      uint64_t bytes);
// The addresses here between which it can read what is referred to by connectors in that kind of place.
void rondo_near_lent(const struct rondo_world *world, uint32_t process, int kind, uint64_t *begin,
                     uint64_t *end);
// From its addresses to ours, likewise.
uint64_t rondo_near_bias(const struct rondo_world *world, uint32_t process, int kind);
// What an offer says of connectors of ours there, and from where on it counts; and the kind of place of theirs.
uint32_t rondo_near_place(int kind);
uint64_t rondo_near_base(const struct rondo_world *world, int kind);
int rondo_near_kind(const struct rondo_offer *offer);
// As rondo_peers_transport, of a process with which devices share memory.
int rondo_near_say(const struct rondo_world *world, uint32_t process, char *why, size_t why_bytes);
// Lets go of its memory.
void rondo_near_unmap(struct rondo_peer *peer);

// ----------------------------------------------------------------- window.c ---

// Gets the memory of a window of NCCL, before there is a mesh.
void rondo_window_open(struct rondo_world *world);
// It is known who is there.
void rondo_window_begin(struct rondo_world *world);
// After the daemons, and all that lies in it.
void rondo_window_close(struct rondo_world *world);
// A word on it has come. Returns 1, or 0 if no member sends such a thing.
int rondo_window_receive(struct rondo_world *world, const struct rondo_mesh_message *message);
// A process is lost.
void rondo_window_lose(struct rondo_world *world, uint32_t process);
// 1 if it is known whether this process and that one use one; and if they do.
int rondo_window_is_settled(const struct rondo_world *world, uint32_t process);
int rondo_window_leads(const struct rondo_world *world, uint32_t process);
// Then: where its memory is here, and from its addresses to ours.
uint64_t rondo_window_view(const struct rondo_world *world, uint32_t process);
uint64_t rondo_window_bias(const struct rondo_world *world, uint32_t process);
// Why there is none; "": there is one, or it is not known yet, or nobody here asks.
const char *rondo_window_why(const struct rondo_world *world, uint32_t process);

// ----------------------------------------------------------------- events.c ---

// Goes on with what had to wait for a process.
void rondo_peers_resume(struct rondo_world *world);

// -------------------------------------------------------------------- far.c ---

// How that process is reached: enum rondo_transport. Starts the proxy where it is needed first.
int rondo_far_reach(struct rondo_world *world, uint32_t process);
// Sends it the proxy's address.
void rondo_far_greet(struct rondo_world *world, uint32_t process);
// Its address has come. Returns 1, or 0 if no member sends such a thing.
int rondo_far_meet(struct rondo_world *world, const struct rondo_mesh_message *message);
// The process is lost: the proxy lets go of it.
void rondo_far_lose(struct rondo_world *world, uint32_t process);
// Waits, for a while, until what was published has got there; then the mesh may say that we leave.
void rondo_far_drain(struct rondo_world *world);
void rondo_far_close(struct rondo_world *world);

// What the daemon of a rank calls: see struct rondo_daemon. `owner` is the rank.
void rondo_far_moved(void *owner);
// A run of that communicator has been counted; it may have begun, and ended, before. The rank lock is held, not that of the job.
static inline void rondo_far_submitted(struct rondo_world *world, struct rondo_communicator *comm) {
  if (rondo_load_seq_cst_u32(&comm->circle.is_asleep)) // P4
    rondo_proxy_rouse(world->proxy, &comm->circle);
}
int rondo_far_forward(void *owner, int then);

// What brings the proxies' messages; tests put another in its place, before any rank is made.
extern const struct rondo_carrier_calls *rondo_far_carrier;

// ------------------------------------------------------------------ match.c ---

// The proxy does not use the connectors of a link any more. `is_whole`: 0 if something that was sent
// to it may be missing.
void rondo_match_over(struct rondo_world *world, struct rondo_proxy_link *far, int is_whole);

// 1 if a rank here has a run outstanding for which the proxy forwards by that link.
int rondo_match_is_used(struct rondo_world *world, const struct rondo_proxy_link *far);

// Binds what had to wait until a process had answered.
void rondo_match_rebind(struct rondo_world *world, struct rondo_meeting *m);

// Makes the gate open if all members are there and all links ready.
void rondo_match_open(struct rondo_world *world, struct rondo_meeting *m,
                      struct rondo_communicator *comm);
// Makes and announces what had to wait until it was known where the members are.
void rondo_match_settle(struct rondo_world *world, struct rondo_meeting *m,
                        struct rondo_party *party);
// A registration has come from elsewhere; it belongs to the meeting from now on.
void rondo_match_arrive(struct rondo_world *world, struct rondo_meeting *m,
                        struct rondo_party *party);
// A registration from elsewhere has failed there, or fails one here.
void rondo_match_fail(struct rondo_world *world, struct rondo_party *party, int status,
                      uint32_t culprit);
// A registration from elsewhere is over; it is freed.
void rondo_match_depart(struct rondo_world *world, struct rondo_meeting *m,
                        struct rondo_party *party, uint64_t completed);
// A producer elsewhere writes no more to the connectors of that generation (0: of any) to
// `consumer` (UINT32_MAX: to any rank).
void rondo_match_release(struct rondo_world *world, struct rondo_meeting *m, uint64_t generation,
                         uint32_t producer, uint32_t consumer);
// A rank elsewhere is gone. `left`: it said so, and had taken leave of all that it registered.
void rondo_match_lost(struct rondo_world *world, struct rondo_meeting *m, uint32_t rank, int left);

#endif // RONDO_RUNTIME_BOOT_PEERS_H
