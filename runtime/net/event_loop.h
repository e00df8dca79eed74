// The control thread of the process: one event loop that all its meshes and roots share.
//
//   get (the first call starts the thread) -> post, timers, sockets -> put (the last call ends it)
//
// Only this thread touches connections, so they need no lock. Other threads give it work with
// rondo_event_loop_post.
#ifndef RONDO_RUNTIME_NET_EVENT_LOOP_H
#define RONDO_RUNTIME_NET_EVENT_LOOP_H

#include <stdint.h>
#include <sys/queue.h>

#include <event2/event.h>
#include <event2/event_struct.h>

struct rondo_event_loop;

// A call to run on the control thread. The poster owns it and may post it again once it has begun.
struct rondo_event_loop_task {
  TAILQ_ENTRY(rondo_event_loop_task) queued;
  void (*call)(void *arg);
  void *arg;
  int is_posted;
};

// Returns the control thread's loop and starts the thread if it does not run. Null if the system
// gives no thread or memory.
struct rondo_event_loop *rondo_event_loop_get(void);
// Undoes one `get`. The last one ends the thread, and waits for that unless it is called there. The
// caller has removed its timers and sockets before. Tasks that are still posted do not run.
void rondo_event_loop_put(struct rondo_event_loop *loop);

// Runs task->call(task->arg) on the control thread, in order of posting. Does nothing if the task
// is already posted. Any thread, also the control thread.
void rondo_event_loop_post(struct rondo_event_loop *loop, struct rondo_event_loop_task *task);
// Removes a task that has not begun. On the control thread only.
void rondo_event_loop_cancel(struct rondo_event_loop *loop, struct rondo_event_loop_task *task);

struct event_base *rondo_event_loop_base(struct rondo_event_loop *loop);

// Starts or restarts a timer that has been assigned to the loop's base.
void rondo_event_loop_timer_set(struct event *timer, uint64_t delay_ns);

// Raises the process's soft limit of open files, as far as the hard limit allows, to leave room for
// `count` connections besides the application's files.
void rondo_event_loop_make_room(uint32_t count);

// Marks a socket that children of fork() close, so that other processes see the end of this process
// even if a child lives on. `rondo_event_loop_close` closes and unmarks it. Any thread.
void rondo_event_loop_own(int fd);
void rondo_event_loop_close(int fd);

#endif // RONDO_RUNTIME_NET_EVENT_LOOP_H
