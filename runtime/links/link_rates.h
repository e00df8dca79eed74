// Measures how fast data moves between the ranks of a job: include/rondo/links.h.
#ifndef RONDO_RUNTIME_LINKS_LINK_RATES_H
#define RONDO_RUNTIME_LINKS_LINK_RATES_H

#include <stdint.h>

#include <rondo/links.h>

struct rondo_rank;

// Does what rondo_links_measure promises, until `end_ns`, on a rank that is pinned. `links` is
// checked, and `why` has RONDO_REASON_BYTES.
int rondo_links_measure_rank(struct rondo_rank *rank, struct rondo_links *links, uint64_t end_ns,
                             char *why);

#endif // RONDO_RUNTIME_LINKS_LINK_RATES_H
