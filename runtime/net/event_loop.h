// The control thread of the process: one event loop that all meshes and rendezvous of it share.
//
//   get (the first starts the thread) -> post, timers and sockets on it -> put (the last ends it)
//
// Everything that belongs to a connection is touched by this thread alone, so it needs no lock;
// other threads hand it work with rondo_event_loop_post.
#ifndef RONDO_RUNTIME_NET_EVENT_LOOP_H
#define RONDO_RUNTIME_NET_EVENT_LOOP_H

#include <stdint.h>

#include <event2/event.h>
#include <event2/event_struct.h>

struct rondo_event_loop;

// A piece of work. It belongs to the poster, and may be posted again once it has begun.
struct rondo_event_loop_task {
  struct rondo_event_loop_task *next;
  void (*call)(void *arg);
  void *arg;
  int is_posted;
};

// The control thread, started if need be. Null if the system gives no thread or no memory.
struct rondo_event_loop *rondo_event_loop_get(void);
// Gives one `get` back. The last one ends the thread, and waits for it unless it is the caller.
// Everything that was made on it has been taken away before; what is still posted is not run.
void rondo_event_loop_put(struct rondo_event_loop *loop);

// Runs task->call(task->arg) on the thread, soon and in order. Nothing happens if it is posted
// already. Any thread, the control thread too.
void rondo_event_loop_post(struct rondo_event_loop *loop, struct rondo_event_loop_task *task);
// Takes a task back that has not begun. On the control thread only.
void rondo_event_loop_cancel(struct rondo_event_loop *loop, struct rondo_event_loop_task *task);

int rondo_event_loop_is_here(const struct rondo_event_loop *loop);
struct event_base *rondo_event_loop_base(struct rondo_event_loop *loop);

// Starts, or starts again, a timer that has been assigned on the loop's base.
void rondo_event_loop_timer_set(struct event *timer, uint64_t delay_ns);

uint64_t rondo_event_loop_now_ns(void);

// Raises the process's soft limit of open files, as far as the hard one allows, so that there is room for
// `count` connections beside what the application opens.
void rondo_event_loop_make_room(uint32_t count);

// Marks a socket as of this process alone: a child that it forks closes it, so that others see the end of
// this process although the child lives on. `rondo_event_loop_close` closes and unmarks one. Any thread.
void rondo_event_loop_own(int fd);
void rondo_event_loop_close(int fd);

#endif // RONDO_RUNTIME_NET_EVENT_LOOP_H
