// Connector offers: what processes tell each other of a registration besides the agreement. A rank
// tells only the processes whose ranks its plan sends to or receives from, each once.
//
//   send (OFFERS) -> the peer binds its links -> detach (DETACH) -> the peer answers RELEASE for
//   offers that it has not bound
//
// OFFERS has the connectors here that ranks there write, maybe none, and the descriptor of the
// registration. Offers may come before the registration that they fit; they stay until DETACH. A
// producer that detaches has written all it will write.
//
// The lock of the job is held.
#ifndef RONDO_RUNTIME_JOB_OFFERS_H
#define RONDO_RUNTIME_JOB_OFFERS_H

#include "runtime/job/message.h"

struct rondo_job;
struct rondo_match_entry;
struct rondo_mesh_message;
struct rondo_registration;

// The offers of a rank of another process.
struct rondo_offers {
  struct rondo_offers *next; // of the match entry
  struct rondo_offers_message is;
  uint64_t bytes[];
};

// Sends the offers of a registration whose links are made. Without memory the registration fails.
void rondo_offers_send(struct rondo_job *job, struct rondo_registration *r);
// Tells the same processes that the registration has ended.
void rondo_offers_detach(struct rondo_job *job, const struct rondo_registration *r);

// Takes a message of type OFFERS, DETACH or RELEASE. Returns false if the message is invalid.
bool rondo_offers_receive(struct rondo_job *job, const struct rondo_mesh_message *message);

// The offers of that generation of a rank, or null.
struct rondo_offers *rondo_offers_find(const struct rondo_match_entry *m, uint32_t rank,
                                       uint64_t generation);
// True if the offers are of a member of the registration's group that has registered the same. If
// they are not, the agreement finds the difference.
bool rondo_offers_fit(const struct rondo_offers *offers, const struct rondo_registration *r);
// What the rank of the offers sends to rank `rank` in an all-to-all-v, and what it expects from
// there; or null.
const uint64_t *rondo_offers_counts(const struct rondo_offers *offers, uint32_t rank);
// Drops the offers of a rank that has gone.
void rondo_offers_forget(struct rondo_match_entry *m, uint32_t rank);

#endif // RONDO_RUNTIME_JOB_OFFERS_H
