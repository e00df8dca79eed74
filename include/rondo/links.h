// Rondo: how fast the network between ranks is, and the order of ranks in which a ring is fastest.
//
// A ring is as fast as its slowest link. Where links differ and nothing tells how, as between
// machines of several places, rondo_links_measure tries them all and finds the order of ranks whose
// slowest link is fastest. A group in that order makes its rings so:
//
//   uint32_t ranks[8];
//   struct rondo_links links = RONDO_LINKS_INIT;
//   links.ranks = ranks;
//   links.capacity = 8;
//   rondo_links_measure(ctx, &links, RONDO_FOREVER, why);
//   rondo_group_create(ctx, ranks, links.count, &group);   // for the collectives to register
//
// A ring always keeps the ranks of one machine together. Call rondo_links_measure again when the
// network has changed. docs/elastic.md says how it measures.
//
// The rules at the top of rondo.h hold here too. `why` is as in elastic.h.
#ifndef RONDO_LINKS_H
#define RONDO_LINKS_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

// What a measurement fills in. Start from RONDO_LINKS_INIT. Rates are in bytes a second.
struct rondo_links {
  size_t size;       // set by RONDO_LINKS_INIT
  uint32_t version;  // set by RONDO_LINKS_INIT
  uint32_t capacity; // length of `ranks`; of `rates` and `endpoints` its square
  uint32_t *ranks;   // gets the ranks that are left in the job, in the order of the ring
  // May be null. Gets `count` rows of `count`: at i * count + j, how fast data moved from ranks[i]
  // to ranks[j]. 0 where i is j.
  uint64_t *rates;
  // May be null. Gets likewise over how many connections data go from ranks[i] to ranks[j] from now
  // on; 0: not over connections of the network.
  uint32_t *endpoints;
  uint32_t count;           // gets how many ranks there are
  uint32_t reserved;        // 0
  uint64_t ring_rate;       // gets the rate of the slowest link of that ring; 0: a job of one rank
  uint64_t plain_ring_rate; // gets the same of the ring in the order of numbers
};

#define RONDO_LINKS_VERSION 2u
#define RONDO_LINKS_INIT                                                                           \
  { sizeof(struct rondo_links), RONDO_LINKS_VERSION, 0, NULL, NULL, NULL, 0, 0, 0, 0 }

// Measures the links between all ranks that are left in the job of `ctx`. All these ranks call it,
// and all get the same numbers and the same order, which begins with the lowest rank. Takes
// about 0.1 s for each other rank, and as much again for each other process on another machine;
// longer if a link is slower than 10 MB/s, at most `timeout_ns`. Other runs may go on meanwhile,
// but the rates are what these leave.
//
// Between processes that UCX joins, the call tries 1 and 4 connections, and if 4 are faster also 2,
// 8 and 16, unless the link is slower than 0.5 MB/s. All data between the two processes go from
// then on over the fewest that are within 10 % of the best, until the next call.
//
// With up to 16 ranks no order has a faster slowest link. The order of numbers is kept if it is
// within 5 % of the best.
// Returns RONDO_SUCCESS;
// RONDO_ERR_FULL: more ranks than `capacity`; `count` says how many. The call was done by all;
// RONDO_ERR_TIMEOUT: ranks have not called in time; the others get RONDO_ERR_ABORTED;
// RONDO_ERR_ABORTED: another rank has given up;
// RONDO_ERR_PEER: a rank was lost;
// RONDO_ERR_MISMATCH: another rank makes a call of state.h;
// RONDO_ERR_EXISTS: another thread measures or synchronises a state on this context;
// RONDO_ERR_INVALID: `links` is of another version or has null pointers, or a callback called this.
//   This rank has not taken part: the others wait for it;
// RONDO_ERR_NO_MEMORY: on any rank;
// RONDO_ERR_UNSUPPORTED: the backend of `ctx` is not RONDO_BACKEND_HOST.
int rondo_links_measure(struct rondo_context ctx, struct rondo_links *links, int64_t timeout_ns,
                        char *why);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_LINKS_H
