// The processes of this machine that ask for a window of NCCL. They agree that all of them use one,
// or none does.
//
// Each process gets the memory of its window first (open). A process says that it asks for one when
// it joins the job. Once all processes are known (begin), those of this machine that ask form a
// group, of which the first leads. No process waits for a process that does not ask.
//
//   each -> leader  READY    it has its memory, of this size; or why not
//   leader -> each  ENTER    the id: join now
//   each -> leader  DONE     it has joined, and sees all others; or why not
//   leader -> each  VERDICT  use the window; or why no process does
//   each -> each    ADOPTED  it uses the window, and where it has its memory; or it does not
//
// Two processes use the window with each other only if both have sent ADOPTED. So it is safe even
// if the leader is lost while it sends its verdict. A process that is lost before its ADOPTED
// counts as refusing. Registrations with a process of the group wait until it is decided. That
// takes at most the limits of getting ready and of joining, and a little more. No thread waits: a
// timer polls NCCL's helper thread and the clock.
//
// Part of transports.h: the caller holds the job's lock.
#ifndef RONDO_RUNTIME_TRANSPORT_WINDOW_GROUP_H
#define RONDO_RUNTIME_TRANSPORT_WINDOW_GROUP_H

#include <stdbool.h>

#include "runtime/transport/transports.h"

struct rondo_message_window {
  uint32_t step;        // enum step of window_group.c
  int32_t status;       // RONDO_SUCCESS, or why not
  uint64_t base, bytes; // of the sender's window
  uint8_t id[128];      // of NCCL
  char why[256];
};

// Allocates the memory of a window of NCCL, before the processes are known.
void rondo_window_group_open(struct rondo_transports *t);
// Forms the group once the processes are known.
void rondo_window_group_begin(struct rondo_transports *t);
// Closes the window, after the daemons and everything that lies in it have ended.
void rondo_window_group_close(struct rondo_transports *t);

// Receives a RONDO_MESSAGE_WINDOW. Returns 0 if no member sends such a message.
int rondo_window_group_receive(struct rondo_transports *t,
                               const struct rondo_transport_arrival *arrival);
void rondo_window_group_lose(struct rondo_transports *t, uint32_t process);

// True once it is known whether both processes use a window; 1 if they do.
bool rondo_window_group_is_settled(const struct rondo_transports *t, uint32_t process);
int rondo_window_group_leads(const struct rondo_transports *t, uint32_t process);
// If both use one: the process's memory as mapped here, and what to add to its addresses to get
// ours.
uint64_t rondo_window_group_view(const struct rondo_transports *t, uint32_t process);
uint64_t rondo_window_group_bias(const struct rondo_transports *t, uint32_t process);
// Why there is no window with that process. "": there is one, it is not known yet, or none is asked
// for.
const char *rondo_window_group_why(const struct rondo_transports *t, uint32_t process);

#endif // RONDO_RUNTIME_TRANSPORT_WINDOW_GROUP_H
