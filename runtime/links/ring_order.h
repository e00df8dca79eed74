// The order of ranks in which a ring is fastest. Pure.
//
// A ring is as fast as its slowest link. So the order is wanted whose slowest link is fastest, not
// the one whose links are fastest in sum.
#ifndef RONDO_RUNTIME_LINKS_RING_ORDER_H
#define RONDO_RUNTIME_LINKS_RING_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#define RONDO_RING_EXACT 16u // members up to which no order is faster

// The rate of the slowest link of a ring; 0 of one member. `rates` has `count` rows of `count`:
// rates[i * count + j] is that from member i to member j. `order` has the members in the order of
// the ring.
uint64_t rondo_ring_rate(const uint64_t *rates, uint32_t count, const uint32_t *order);

// Writes `count` members to `order`, 0 first. With up to RONDO_RING_EXACT members no order has a
// faster slowest link; with more, seldom one. The order of numbers is kept if it is within 5 % of
// what was found: rates are never measured exactly. The result depends on the arguments alone.
// Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_ring_order(const uint64_t *rates, uint32_t count, uint32_t *order);

#endif // RONDO_RUNTIME_LINKS_RING_ORDER_H
