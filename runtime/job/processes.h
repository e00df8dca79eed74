// The other processes of a job: what is sent to them, what comes from them, and their end.
// Part of the job: see job.h. Unless said otherwise the caller holds the lock of the job.
#ifndef RONDO_RUNTIME_JOB_PROCESSES_H
#define RONDO_RUNTIME_JOB_PROCESSES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/job/job.h"
#include "runtime/job/match_entry.h"
#include "runtime/job/message.h"
#include "runtime/transport/proxy.h"

// Another process of the job. Its memory is mapped once and for all; the mapping ends when the
// process is gone and no link needs it any more.
struct rondo_peer {
  uint8_t reach;      // enum rondo_transport: shared memory, UCX, or none
  uint8_t is_greeted; // has been told of our arena
  uint8_t is_lost;
  uint8_t is_failed; // about to be given up
  uint8_t is_broken; // the proxy does not reach it any more
  uint64_t base;     // of its arena, where it maps it
  uint64_t bytes;    // of its arena
  void *map;         // of its arena, here; null: not mapped
  // Of devices, where they cannot use its arena as it is: near.c.
  uint8_t is_settled;               // it is known how it maps our range
  uint8_t refuses_range;            // it maps no more of it
  uint32_t parts_told;              // of our range, and how far they go ...
  uint64_t told, mapped;            // ... of which it has mapped so much
  struct rondo_message_hello hello; // its own
  struct rondo_range *view;         // its range, here; null: not mapped
  uint64_t view_bytes;              // as far as it is mapped
  struct rondo_pins pins;           // of `map`
  char no_view[RONDO_WHY_BYTES];    // why there is none, or no more of it
  uint32_t links;                   // that use it
  uint32_t bell;     // its number among those of the job here, plus 1; 0: it has none
  uint64_t mark;     // last round of messages that went there
  uint64_t asked_ns; // unanswered since then; 0: no question is open
};

// Begins to join the job. Returns what rondo_mesh_start and rondo_arena_create do.
int rondo_processes_open(struct rondo_job *job, const struct rondo_config *cfg);
// Ends it. The lock is not held, and no rank is left. `join_ns`: see rondo_job_leave.
void rondo_processes_close(struct rondo_job *job, int64_t join_ns);

// The process of a rank: RONDO_HERE, RONDO_SOMEWHERE, or its number.
uint32_t rondo_processes_where(const struct rondo_job *job, uint32_t rank);

// How this process reaches a rank: enum rondo_transport, or -1 if it is not known yet; and why.
int rondo_processes_transport(const struct rondo_job *job, const struct rondo_rank *self,
                              uint32_t rank, char *why, size_t why_bytes);

// A notice about the registration's registration.
static inline struct rondo_message_short
rondo_message_about(const struct rondo_registration *registration) {
  struct rondo_message_short notice = {.id = registration->desc->id,
                                       .generation = registration->generation};
  notice.space = registration->desc->reserved;
  return notice;
}

// Tells the processes of the registration's other members, each once. `size` bytes at `bytes`.
void rondo_processes_tell(struct rondo_job *job, const struct rondo_registration *registration,
                          uint32_t type, const void *bytes, size_t size);
// Tells one process.
void rondo_processes_send(struct rondo_job *job, uint32_t process, uint32_t type, const void *bytes,
                          size_t size);

// Tells them of a registration, with the connectors that it offers, and if it has failed.
void rondo_processes_announce(struct rondo_job *job, struct rondo_registration *registration);
// Tells them that it is over.
void rondo_processes_withdraw(struct rondo_job *job, struct rondo_registration *registration,
                              uint64_t completed);

// Tells of the registrations that were over before the roster.
void rondo_processes_tell_early(struct rondo_job *job);

// Goes on without a process, as if it were lost.
void rondo_processes_give_up(struct rondo_job *job, uint32_t process);
// The same a moment later, for callers in the middle of something.
void rondo_processes_mark_failed(struct rondo_job *job, uint32_t process);

// A link to the process needs its memory no more.
void rondo_processes_unuse(struct rondo_job *job, uint32_t process);

// Wakes the blocks of the members that are here: their gate has changed.
void rondo_processes_wake(struct rondo_job *job, const struct rondo_communicator *comm);

// Greets the process, and tells it of the parts of our range that are new.
void rondo_processes_greet(struct rondo_job *job, uint32_t process);

// ------------------------------------------------------------------- near.c ---

// Makes what devices share with processes of this machine, if they do.
void rondo_mapped_open(struct rondo_job *job);
// One more device of the job.
void rondo_mapped_admit(struct rondo_job *job, struct rondo_device *device);
// Fills in what a greeting says of the range.
void rondo_mapped_describe(const struct rondo_job *job, struct rondo_message_hello *hello);
// The next part of which the process has not been told. Returns 1, or 0 if there is none.
int rondo_mapped_next_part(const struct rondo_job *job, uint32_t process,
                           struct rondo_range_part *part);
// 1 if it is known where connectors to be used by that process shall lie.
int rondo_mapped_is_settled(const struct rondo_job *job, uint32_t process);
// Where they may lie: RONDO_MAPS_RANGE, RONDO_MAPS_WINDOW, both, or neither.
int rondo_mapped_maps(const struct rondo_job *job, uint32_t process);
// 1 unless the process has been told of parts that it has not answered for.
int rondo_mapped_is_bindable(const struct rondo_job *job, uint32_t process);
// It has said hello.
void rondo_mapped_meet(struct rondo_job *job, uint32_t process);
// A part of its range has come; its answer to one of ours. Return 1, or 0 if no member sends such a thing.
int rondo_mapped_part(struct rondo_job *job, const struct rondo_mesh_message *message);
int rondo_mapped_answer(struct rondo_job *job, const struct rondo_mesh_message *message);
// Where connectors of `bytes` that it offers are here. Null: nowhere.
void *rondo_mapped_find(struct rondo_job *job, uint32_t process, const struct rondo_offer *offer,
                        uint64_t bytes);
// The addresses here between which it can read what is referred to by connectors in that kind of place.
void rondo_mapped_exported(const struct rondo_job *job, uint32_t process, int kind, uint64_t *begin,
                           uint64_t *end);
// From its addresses to ours, likewise.
uint64_t rondo_mapped_bias(const struct rondo_job *job, uint32_t process, int kind);
// What an offer says of connectors of ours there, and from where on it counts; and the kind of place of theirs.
uint32_t rondo_mapped_place(int kind);
uint64_t rondo_mapped_base(const struct rondo_job *job, int kind);
int rondo_mapped_kind(const struct rondo_offer *offer);
// As rondo_processes_transport, of a process with which devices share memory.
int rondo_mapped_say(const struct rondo_job *job, uint32_t process, char *why, size_t why_bytes);
// Lets go of its memory.
void rondo_mapped_unmap(struct rondo_peer *peer);

// ----------------------------------------------------------------- window.c ---

// Gets the memory of a window of NCCL, before there is a mesh.
void rondo_window_group_open(struct rondo_job *job);
// It is known who is there.
void rondo_window_group_begin(struct rondo_job *job);
// After the daemons, and all that lies in it.
void rondo_window_group_close(struct rondo_job *job);
// A word on it has come. Returns 1, or 0 if no member sends such a thing.
int rondo_window_group_receive(struct rondo_job *job, const struct rondo_mesh_message *message);
// A process is lost.
void rondo_window_group_lose(struct rondo_job *job, uint32_t process);
// 1 if it is known whether this process and that one use one; and if they do.
int rondo_window_group_is_settled(const struct rondo_job *job, uint32_t process);
int rondo_window_group_leads(const struct rondo_job *job, uint32_t process);
// Then: where its memory is here, and from its addresses to ours.
uint64_t rondo_window_group_view(const struct rondo_job *job, uint32_t process);
uint64_t rondo_window_group_bias(const struct rondo_job *job, uint32_t process);
// Why there is none; "": there is one, or it is not known yet, or nobody here asks.
const char *rondo_window_group_why(const struct rondo_job *job, uint32_t process);

// ----------------------------------------------------------------- events.c ---

// Goes on with what had to wait for a process.
void rondo_processes_resume(struct rondo_job *job);

// -------------------------------------------------------------------- far.c ---

// How that process is reached: enum rondo_transport. Starts the proxy where it is needed first.
int rondo_proxied_reach(struct rondo_job *job, uint32_t process);
// Sends it the proxy's address.
void rondo_proxied_greet(struct rondo_job *job, uint32_t process);
// Its address has come. Returns 1, or 0 if no member sends such a thing.
int rondo_proxied_meet(struct rondo_job *job, const struct rondo_mesh_message *message);
// The process is lost: the proxy lets go of it.
void rondo_proxied_lose(struct rondo_job *job, uint32_t process);
// Waits, for a while, until what was published has got there; then the mesh may say that we leave.
void rondo_proxied_drain(struct rondo_job *job);
void rondo_proxied_close(struct rondo_job *job);

// What the daemon of a rank calls: see struct rondo_daemon. `owner` is the rank.
void rondo_proxied_moved(void *owner);
// A run of that communicator has been counted; it may have begun, and ended, before. The rank lock is held, not that of the job.
static inline void rondo_proxied_submitted(struct rondo_job *job, struct rondo_communicator *comm) {
  if (rondo_load_seq_cst_u32(&comm->link_set.is_asleep)) // P4
    rondo_proxy_wake(job->proxy, &comm->link_set);
}
int rondo_proxied_forward(void *owner, int then);

// What brings the proxies' messages; tests put another in its place, before any rank is made.
extern const struct rondo_carrier_calls *rondo_proxied_carrier;

// ------------------------------------------------------------------ match.c ---

// The proxy does not use the connectors of a link any more. `is_whole`: 0 if something that was sent
// to it may be missing.
void rondo_match_over(struct rondo_job *job, struct rondo_proxy_link *far, int is_whole);

// 1 if a rank here has a run outstanding for which the proxy forwards by that link.
int rondo_match_is_used(struct rondo_job *job, const struct rondo_proxy_link *far);

// Binds what had to wait until a process had answered.
void rondo_match_rebind(struct rondo_job *job, struct rondo_match_entry *m);

// Makes the gate open if all members are there and all links ready.
void rondo_match_open(struct rondo_job *job, struct rondo_match_entry *m,
                      struct rondo_communicator *comm);
// Makes and announces what had to wait until it was known where the members are.
void rondo_match_settle(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration);
// A registration has come from elsewhere; it belongs to the match entry from now on.
void rondo_match_arrive(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration);
// A registration from elsewhere has failed there, or fails one here.
void rondo_match_fail(struct rondo_job *job, struct rondo_registration *registration, int status,
                      uint32_t culprit);
// A registration from elsewhere is over; it is freed.
void rondo_match_depart(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration, uint64_t completed);
// A producer elsewhere writes no more to the connectors of that generation (0: of any) to
// `consumer` (UINT32_MAX: to any rank).
void rondo_match_release(struct rondo_job *job, struct rondo_match_entry *m, uint64_t generation,
                         uint32_t producer, uint32_t consumer);
// A rank elsewhere is gone. `left`: it said so, and had taken leave of all that it registered.
void rondo_match_lost(struct rondo_job *job, struct rondo_match_entry *m, uint32_t rank, int left);

#endif // RONDO_RUNTIME_JOB_PROCESSES_H
