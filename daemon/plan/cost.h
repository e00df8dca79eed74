// The cost model: how long a collective takes by each algorithm, and so which one is chosen.
//
// An algorithm has a *form*: how many messages follow each other, how many there are, and how
// large they are (rondo_plan_form_of). A *model* says what a message costs. It has rows: the cost
// of a message for a link class, a kind and an algorithm, measured at several numbers of ranks and
// sizes of messages, and interpolated. The time of a collective on one machine is
//
//   longest chain × cost of a message               if each rank has a core,
//   max(that, messages of a machine × cost / cores) if ranks share cores.
//
// Where a model has no row, and on several machines, the chain follows from the terms of the links
// (cost_links.h). A model is measured by `rondo-info tune`; rondo_cost_defaults is the one that is
// compiled in.
//
// An all-reduce over two levels takes the sum of its parts for each loop: those inside a machine,
// with the costs of the links there, and the one among the leaders of the machines. Of a reduce or
// broadcast only the first loop does; each that follows takes what the slower part takes.
//
// The choice is the candidate with the least time. All arithmetic is exact on all machines or IEEE
// operations in a fixed order, so ranks with the same model and query choose the same. Pure.
#ifndef RONDO_DAEMON_PLAN_COST_H
#define RONDO_DAEMON_PLAN_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/plan/plan.h"
#include "daemon/plan/plan_topology.h"

// How ranks reach each other. A group of several classes has the slowest.
enum rondo_cost_link {
  RONDO_COST_THREAD = 0,        // threads of one process
  RONDO_COST_SHARED_MEMORY = 1, // processes of one machine
  RONDO_COST_NVLINK = 2,        // GPUs
  RONDO_COST_NETWORK = 3,       // machines
  RONDO_COST_LINKS = 4
};

// The name of a link class, such as "thread", and back: RONDO_COST_LINKS if none has that name.
const char *rondo_cost_link_name(int link);
int rondo_cost_link_find(const char *name);

// An algorithm that needs more memory for connectors than this is no candidate, only forced: on
// average of the ranks so many connectors to other ranks, and so many bytes of payload and scratch.
// Over two levels as many bytes for each leader of a machine: it has a port of its own, and the
// other leaders as peers.
#define RONDO_COST_MAX_CONNECTORS 17u
#define RONDO_COST_MAX_PAYLOAD_BYTES (1u << 20)
// Nor is an all-reduce or broadcast straight to more ranks than these: models are measured with
// fewer, and a root with so many connections and connectors slows down all (256 processes on two
// cores took twice as long for 300 all-reduces as along the tree).
#define RONDO_COST_MAX_ROOT_PEERS 64u
// Nor are one-shot and two-shot where ranks share cores. One-shot is the fastest for one small
// all-reduce alone, but with several in flight its n(n − 1) messages take turns on the cores (8
// processes on two cores took 424 to 989 µs for 64 of 1 KiB, and 167 to 333 by the direct
// algorithm). Two-shot needs n(n − 1) connectors.
//
// Nor, where ranks share cores, is an all-reduce of more bytes than these with more than two
// connectors a rank. Double trees are up to a third faster than the ring from 256 KiB on, but
// 10,000 all-reduces of 1 MiB among 8 threads took 355 MiB with them, 532 with two-shot, and 204
// with the ring: large ones are many gradients, and those have 256 MiB.
#define RONDO_COST_FEW_CONNECTORS_BYTES (64u << 10)

// Nor are algorithms with packets except on GPUs of one machine, where the mark of a slot takes a
// system fence. A packet message costs these parts of a message and of a byte: NCCL's tuner has
// 0.6 µs for a hop with packets over NVLink and 3.4 µs for another one (latency included), and half
// of what packets hold is marks.
#define RONDO_COST_PACKETS_MESSAGE (1.0f / 15)
#define RONDO_COST_PACKETS_BYTE 2.0f

// Nor is Bruck's all-to-all of larger parts than these. Where direct has too many connectors it
// would be the only candidate, and it copies each part many times: between threads on two cores
// parts of 256 B took 0.7 of the time of direct with 64 ranks, 1.1 with 32 and 1.3 with 20.
#define RONDO_COST_MAX_EXCHANGE_BYTES 256u

// A larger message is cut into loops (the default of slot_bytes), which follow each other through
// the plan.
#define RONDO_COST_LOOP_BYTES 262144u
// So is a larger message of packets: a connector's memory for packets is written when it is set up.
#define RONDO_COST_PACKETS_LOOP_BYTES 32768u

#define RONDO_COST_MAX_RANKS 5u // numbers of ranks at which a model may be measured
#define RONDO_COST_MAX_SIZES 8u // sizes of messages

// What a message costs, in nanoseconds. [i][k]: of model->ranks[i] ranks, model->sizes[k] bytes;
// all are above 0.
struct rondo_cost_row {
  uint8_t link, kind, algorithm;
  float message_ns[RONDO_COST_MAX_RANKS][RONDO_COST_MAX_SIZES];
};

// What a message costs on a link, where each rank has a core, of what a model has no row for
// (cost_links.h). It occupies the sender's link, and the receiver's, for message_ns + bytes ×
// byte_ns each, and is on its way for latency_ns in between.
struct rondo_cost_terms {
  float latency_ns, message_ns, byte_ns;
};

// The same where ranks share cores: all that a core does for a message.
struct rondo_cost_line {
  float message_ns, byte_ns;
};

struct rondo_cost_model {
  uint32_t cores; // of the machine where it was measured. Rows of more ranks have cores that ranks
                  // share, others have a core for each rank
  uint32_t rank_points, size_points, row_count;
  uint64_t digest; // tells models from different files apart; 0: the one that is compiled in
  uint32_t ranks[RONDO_COST_MAX_RANKS]; // ascending; the first is at most `cores`, the last is more
  uint32_t sizes[RONDO_COST_MAX_SIZES]; // ascending
  struct rondo_cost_terms alone[RONDO_COST_LINKS]; // each rank has a core
  struct rondo_cost_line shared[RONDO_COST_LINKS]; // ranks share cores
  const struct rondo_cost_row *rows;
};

// The model that is compiled in.
extern const struct rondo_cost_model rondo_cost_defaults;

// The collective whose algorithm is wanted. Equal on all ranks of the group.
struct rondo_cost_query {
  int kind; // enum rondo_kind
  uint32_t nranks;
  uint64_t bytes;    // the descriptor's count in bytes
  int link;          // enum rondo_cost_link: the slowest
  uint32_t machines; // on which the ranks are; 0: 1
  uint32_t cores;    // that the ranks of a machine share; 0: as many as the model's machine has
  uint32_t machine_ranks; // the most on one machine; 0: they are spread evenly
  int inner;        // enum rondo_cost_link: the slowest inside a machine, if there are several
  uint32_t leaders; // of a machine, each with a port of its own; 0: 1
  bool scattered;   // the ranks of a machine do not follow each other
  int quantisation; // enum rondo_quantisation: of the messages
};

// The bytes that messages hold of all elements: those of the query, unless they are quantised.
uint64_t rondo_cost_message_bytes(const struct rondo_cost_query *q);

// Sets all but kind, nranks, bytes and quantisation from the topology of the group: the least cores
// of any machine. A null topology: threads of one process, which share as many cores as the model's
// machine has.
void rondo_cost_query_place(struct rondo_cost_query *q, const struct rondo_plan_topology *topology);

// The messages of a plan, all ranks of the group together.
struct rondo_plan_form {
  uint32_t hops;       // of the longest chain in which each message waits for the one before
  uint32_t steps;      // messages that a loop takes after the first: those that the busiest rank
                       // handles one after the other, or waits for
  uint64_t messages;   // in a loop
  uint64_t connectors; // in a block
  // Of the largest message, all loops together, and of its share of other copies.
  uint64_t bytes;
  uint64_t scratch; // bytes of a rank, all loops together; of trees, the most of any rank
};

// Returns false if the algorithm has no plan for that kind, number of ranks and quantisation, or is
// one over two levels and the ranks are on one machine, or each on its own: then it sends what
// another one does. Reads kind, nranks, bytes, machines, machine_ranks, leaders and quantisation of
// the query. A group of one rank sends nothing. With several leaders the hops are about right, and
// the connectors are those of machines with equal numbers of ranks, and of root 0.
bool rondo_plan_form_of(const struct rondo_cost_query *q, int algorithm,
                        struct rondo_plan_form *form);

// The predicted time in nanoseconds; negative if the algorithm cannot run.
double rondo_cost_predict(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                          int algorithm);

// True if the prediction rests on a row of the model, else on the terms of links.
bool rondo_cost_is_measured(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                            int algorithm);

// What a message would have to cost for the collective to take `time_ns` with `cores` cores: the
// inverse of rondo_cost_predict, for measuring a model. Not for algorithms over two levels.
double rondo_cost_of_message(const struct rondo_cost_query *q, int algorithm, double time_ns);

// Why an algorithm is used.
enum rondo_plan_rule {
  RONDO_PLAN_RULE_ONLY = 0,  // no other one of the kind is a candidate
  RONDO_PLAN_RULE_ALONE = 1, // a group of one rank
  RONDO_PLAN_RULE_LEAST = 2, // the least predicted time
  RONDO_PLAN_RULE_FORCED = 3 // the caller names it
};

#define RONDO_PLAN_RULE_COUNT 4

const char *rondo_plan_rule_name(int rule); // such as "least"

struct rondo_plan_choice {
  int algorithm;  // enum rondo_algorithm
  int rule;       // enum rondo_plan_rule
  double time_ns; // predicted
};

// Chooses the algorithm of a collective; of equal times that with the lower number.
struct rondo_plan_choice rondo_cost_choose(const struct rondo_cost_model *model,
                                           const struct rondo_cost_query *q);

// True if rondo_cost_choose considers the algorithm: it has a plan, and does not need too many
// connectors. More can be forced (rondo_plan_exists).
bool rondo_cost_is_candidate(const struct rondo_cost_query *q, int algorithm);

#endif // RONDO_DAEMON_PLAN_COST_H
