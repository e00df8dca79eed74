// A job of many membership cores on the virtual network, with its disks, and what must hold of it.
#ifndef RONDO_TESTS_EXPLORE_MEMBERS_H
#define RONDO_TESTS_EXPLORE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/job/gather.h"
#include "runtime/job/membership.h"
#include "tests/explore/control_net.h"

#define MEMBERS_MS UINT64_C(1000000)
#define MEMBERS_S UINT64_C(1000000000)

struct members_config {
  uint32_t count; // processes; each is a node of the network
  uint32_t ranks_each;
  uint32_t machines; // the processes are spread over so many, in blocks
  uint32_t root;     // node
  uint64_t seed;
  uint64_t min_delay_ns, max_delay_ns;
  uint64_t peer_timeout_ns, heartbeat_ns, join_timeout_ns;
  uint32_t entry_bytes; // of the shell, in the roster
  bool keeps_logs;
  bool trace;
};

// How a process ended.
enum members_end {
  MEMBERS_RUNS = 0,
  MEMBERS_LEFT,
  MEMBERS_EVICTED,
  MEMBERS_NO_MAJORITY,
  MEMBERS_FAILED,
  MEMBERS_CRASHED
};

struct members_node {
  struct rondo_membership *core;
  uint32_t number; // last epoch that was opened here
  uint64_t digest;
  uint8_t end;
  bool is_stopped, is_gone, is_disk_full;
  uint32_t notices;
  uint32_t blocked; // on this process; UINT32_MAX: on nobody
  uint8_t *log;
  size_t log_size;
  uint64_t incarnation;
  uint64_t ticked_ns;
  uint32_t busy_ticks;
};

struct members {
  struct members_config cfg;
  struct control_net *net;
  struct members_node *nodes;
  struct rondo_gather *gather;
  struct rondo_epoch_pool pool;
  struct rondo_membership_actions actions;
  struct rondo_roster *roster; // once somebody has it
  uint32_t *process_of, *node_of;
  // By epoch number: what was opened, by how many.
  struct members_opened {
    uint64_t digest, order;
    uint64_t first_ns, last_ns;
    uint32_t live_count;
  } * opened;
  uint32_t opened_count, opened_capacity;
  bool may_forget; // those that knew that a process has left may be dead or out of reach
  bool is_strict;  // contents are compared also with those of processes that have ended
  char finding[256];
};

struct members *members_create(const struct members_config *cfg);
void members_destroy(struct members *w);

// Lets time pass. False if something does not hold: see w->finding.
bool members_run(struct members *w, uint64_t for_ns);
bool members_fail(struct members *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

void members_crash(struct members *w, uint32_t node, enum control_net_crash how);
// Starts the process again from its log. False if the log was refused.
bool members_restart(struct members *w, uint32_t node);
void members_stop(struct members *w, uint32_t node);
void members_continue(struct members *w, uint32_t node);
void members_leave(struct members *w, uint32_t node);
// The process of `node` is blocked on that of `on`; UINT32_MAX: on nobody.
void members_block(struct members *w, uint32_t node, uint32_t on);

// True if all processes that run have the same epoch and are its members, and all others are not.
bool members_agree(const struct members *w);
// Sum over all processes that exist, of messages sent of the types from `first` to `last`.
uint64_t members_sent(const struct members *w, uint8_t first, uint8_t last);
uint32_t members_running(const struct members *w);
struct rondo_epoch *members_last(const struct members *w);

#endif // RONDO_TESTS_EXPLORE_MEMBERS_H
