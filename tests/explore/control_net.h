// A virtual network for the cores of the control plane: 3 to 100,000 nodes in one thread, virtual
// time, all chance from one seed.
//
//   control_net_create -> control_net_send, control_net_wake (also within the calls)
//     -> control_net_run ... control_net_crash, control_net_stop, control_net_partition ...
//     -> control_net_destroy
//
// A node is a number; what runs there is the user's. Two nodes have one connection, which opens
// with the first message. Messages of one connection in one direction arrive in order, each after a
// delay of its own; messages of different connections overtake each other. A message arrives, or
// waits in a connection that is silent, or is lost; whoever loses one is told that the connection
// was cut, except by a machine that is gone. Messages are the user's pointers: the network passes
// them on and releases those that are lost.
#ifndef RONDO_TESTS_EXPLORE_CONTROL_NET_H
#define RONDO_TESTS_EXPLORE_CONTROL_NET_H

#include <stdbool.h>
#include <stdint.h>

struct control_net;

// Made at the node, in virtual time. They may send, wake and break what they like.
struct control_net_calls {
  // Takes the message over.
  void (*deliver)(void *arg, uint32_t node, uint32_t from, void *message);
  // The time of control_net_wake has come.
  void (*tick)(void *arg, uint32_t node);
  // The connection to `other` was cut; messages may be lost in both directions. `is_proven`: the
  // process has ended.
  void (*cut)(void *arg, uint32_t node, uint32_t other, bool is_proven);
  void (*release)(void *arg, void *message);
};

struct control_net_config {
  uint32_t node_count;
  uint64_t seed;
  uint64_t min_delay_ns, max_delay_ns; // of a message
  const struct control_net_calls *calls;
  void *arg;
};

struct control_net_stats {
  uint64_t sent, delivered, lost, ticks, cuts;
};

// Ends the program if there is no memory, as all calls below do.
struct control_net *control_net_create(const struct control_net_config *cfg);
void control_net_destroy(struct control_net *net);

uint64_t control_net_now(const struct control_net *net);
const struct control_net_stats *control_net_stats(const struct control_net *net);
// A number below `bound` from the network's seed.
uint32_t control_net_random(struct control_net *net, uint32_t bound);

// Takes the message over.
void control_net_send(struct control_net *net, uint32_t from, uint32_t to, void *message);
// Asks for one tick of the node at `at_ns`, and forgets an earlier wish.
void control_net_wake(struct control_net *net, uint32_t node, uint64_t at_ns);

// Makes all that is due until `until_ns`, which is then the time. Returns false if nothing is left.
bool control_net_run(struct control_net *net, uint64_t until_ns);

// ---- what goes wrong ----

enum control_net_crash {
  CONTROL_NET_ENDS, // the process: its kernel cuts the connections, and refuses new ones
  CONTROL_NET_GONE  // the machine: silence
};
// Some messages that the node has sent still arrive.
void control_net_crash(struct control_net *net, uint32_t node, enum control_net_crash how);
// The node is there again. Connections of before are cut; `deliver` and `tick` are made for it.
void control_net_restart(struct control_net *net, uint32_t node);
bool control_net_is_alive(const struct control_net *net, uint32_t node);

// A stopped node does nothing; what comes waits for it.
void control_net_stop(struct control_net *net, uint32_t node);
void control_net_continue(struct control_net *net, uint32_t node);

// A node that is slow does nothing until a random time (of that mean, at most ten times as long)
// after something has come for it; then it does all that has come. 0: it is not slow.
void control_net_slow(struct control_net *net, uint32_t node, uint64_t mean_ns);

// Cuts a connection. Both nodes are told, or `a` alone: `b` is told when it sends next.
void control_net_cut(struct control_net *net, uint32_t a, uint32_t b, bool tells_both);
// Messages between nodes of different sides wait. All nodes are on side 0 at first.
void control_net_partition(struct control_net *net, uint32_t node, uint8_t side);
// Messages of one connection wait.
void control_net_silence(struct control_net *net, uint32_t a, uint32_t b);
// Puts all nodes on side 0 and ends all silences. What waits arrives, or is lost in one of 100 /
// `cut_percent` connections, which are cut.
void control_net_heal(struct control_net *net, uint32_t cut_percent);

#endif // RONDO_TESTS_EXPLORE_CONTROL_NET_H
