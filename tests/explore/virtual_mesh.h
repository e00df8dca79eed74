// The network of jobs whose processes are threads of one program, in place of the mesh and the root
// (runtime/net). Threads run one at a time and in virtual time (tests/support/script). One thread,
// the network, is the control thread of all processes.
//
//   virtual_mesh_begin -> virtual_process_add -> (in its threads) rondo_init, rondo_join ...
//     -> virtual_mesh_turn, again and again ... virtual_process_crash, virtual_machine_cut ...
//
// Messages between two processes arrive in order, each after a random time. One whose receiver is
// stopped, or which a cut keeps back, waits. A process that ends cuts its connections. Whoever
// shares one with it is told after what it had sent, of which the end may be lost.
#ifndef RONDO_TESTS_EXPLORE_VIRTUAL_MESH_H
#define RONDO_TESTS_EXPLORE_VIRTUAL_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/net/job_address.h"
#include "runtime/net/job_root.h"
#include "runtime/net/mesh.h"
#include "tests/explore/random.h"

#define VIRTUAL_PROCESSES 128u
#define VIRTUAL_MACHINES 4u
#define VIRTUAL_MESHES 16384u
#define VIRTUAL_NOBODY UINT32_MAX

struct virtual_root;

struct rondo_mesh {
  uint32_t index, process, job;
  uint32_t self; // its number in the job, once it has met the others
  struct rondo_job_key key;
  const struct rondo_mesh_events *events;
  void *arg;
  const struct rondo_topology *topology;
  struct rondo_wire_member me;
  bool is_begun, is_open, is_ended;
  uint64_t tick_ns;
  void (*tick)(void *arg);
  uint64_t lost;                         // a bit a process
  uint8_t connected[VIRTUAL_MESHES / 8]; // a bit a mesh
  uint64_t posted;
  struct rondo_mesh_counters counters;
};

void virtual_mesh_begin(struct random *random, uint64_t most_delay_ns);

// Adds a process and returns its number. The calling thread, and all that it starts, are part of it
// from virtual_process_enter on.
uint32_t virtual_process_add(uint32_t machine);
void virtual_process_enter(uint32_t process);
// Of the calling thread; VIRTUAL_NOBODY: it is of none.
uint32_t virtual_process_self(void);
// For struct script_options.
void virtual_thread_began(uint32_t thread, uint32_t by);

// Stops, continues or ends all threads of a process, wherever they are. Called by the network
// thread. False: one of them has a lock that all share; later.
bool virtual_process_try_stop(uint32_t process);
void virtual_process_continue(uint32_t process);
bool virtual_process_try_crash(uint32_t process);
bool virtual_process_is_running(uint32_t process);
uint32_t virtual_process_machine(uint32_t process);

// Messages between a machine and all others wait until it is connected again.
void virtual_machine_cut(uint32_t machine, bool is_cut);
bool virtual_machine_is_cut(uint32_t machine);

// Delivers what is due. Returns when something else is. Called by the network thread.
uint64_t virtual_mesh_turn(void);

// The process of the member `self` of a job.
uint32_t virtual_mesh_process_of(uint32_t job, uint32_t self);
// The number of the job with that id.
uint32_t virtual_job_of(const struct rondo_unique_id *id);

#endif // RONDO_TESTS_EXPLORE_VIRTUAL_MESH_H
