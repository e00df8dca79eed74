// Rondo: jobs whose members change while they run.
//
// A context is one rank's membership in a job, and the members of a job only become fewer. To admit
// others, or to number the remaining ranks anew, the members vote. The vote makes a new job, which
// is the next epoch: each member gets a second context with a new rank, a newcomer its first one.
// Collectives are registered and run on the new context as on any other. The old context goes on:
// runs on it may be submitted before, during and after the vote, in any order, until it is
// destroyed.
//
//   a member:    rondo_grow_listen (once) -> pass the id to newcomers
//   all members: rondo_grow or rondo_shrink -> use the new context -> rondo_destroy the old one
//   a newcomer:  rondo_join
//
//   NCCL                                  here
//   ncclCommGetUniqueId                   rondo_grow_listen
//   ncclCommGrow on a member              rondo_grow; the old context need not be idle
//   ncclCommGrow on a new rank            rondo_join; its rank and the number of ranks are given
//   ncclCommShrink                        rondo_shrink
//   ncclCommRevoke                        rondo_abort, then rondo_shrink
//
// A death needs no vote if the collectives were registered with RONDO_ON_LOSS_RETRY (rondo.h): the
// members that are left do the runs again that it has interrupted, and go on in the same job.
//
// A member that leaves in order calls rondo_destroy and takes no part in the vote. One that died
// needs nothing: the vote leaves out all ranks that the job has lost. To come back, a process calls
// rondo_join like any newcomer. It gets in by a vote only: each epoch has a secret of its own,
// which no vote sends to a rank that it leaves out. docs/elastic.md says which call fits which
// event.
//
// The rules at the top of rondo.h hold here too. Times are in nanoseconds. The caller destroys the
// contexts that it gets. `why` may be null. It has RONDO_REASON_BYTES and gets the reason of a
// status other than RONDO_SUCCESS, in words; an empty text if there is none. In a build without
// libevent or libsodium all calls except rondo_describe_rank return RONDO_ERR_UNSUPPORTED.
#ifndef RONDO_ELASTIC_H
#define RONDO_ELASTIC_H

#include <stdint.h>

#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

// --------------------------------------------------------------- newcomers ----

// Opens a port on which this process, that of a member, accepts newcomers, and writes its addresses
// and a secret to `id`. Whoever has the id can ask to join: keep it from outsiders. One id serves
// any number of votes. It expires when neither rondo_pending nor rondo_grow has used it for ten
// times `cfg->join_timeout_ns`, and when the process ends. `cfg` is as for rondo_unique_id_listen.
// Returns the same statuses as rondo_unique_id_listen.
int rondo_grow_listen(struct rondo_unique_id *id, const struct rondo_config *cfg);

// Ends an id of rondo_grow_listen. Newcomers that wait get RONDO_ERR_PEER.
// Returns RONDO_SUCCESS;
// RONDO_ERR_UNKNOWN: this process has no such id, or it has expired.
int rondo_grow_close(const struct rondo_unique_id *id);

// Writes to `count` how many newcomers wait at an id of rondo_grow_listen. Only the process that
// called rondo_grow_listen can ask.
// Returns RONDO_SUCCESS;
// RONDO_ERR_UNKNOWN: this process has no such id, or it has expired.
int rondo_pending(const struct rondo_unique_id *id, uint32_t *count);

// Asks the members of a running job to admit this process, and waits for that for at most
// `timeout_ns`. `cfg->id` is an id of rondo_grow_listen. The fields rank, rank_count, least_ranks
// and most_ranks of `cfg` are not read. The members give the rank and the number of ranks:
// rondo_describe_rank tells them. If a vote has admitted the newcomer but not all members came, it
// goes on waiting.
// Returns RONDO_SUCCESS: all ranks of the new job have joined;
// a status of rondo_init;
// RONDO_ERR_TIMEOUT: no vote has admitted this process in time;
// RONDO_ERR_FULL: also if a vote has found that the job has most_ranks ranks;
// RONDO_ERR_PEER: the member with the id is gone, or the id has expired;
// RONDO_ERR_INVALID: also if the id is none of rondo_grow_listen, or of another version of the
//   library, or a callback called this.
int rondo_join(struct rondo_context *ctx, const struct rondo_config *cfg, int64_t timeout_ns,
               char *why);

// Writes to `rank` and `rank_count` which rank a context is, and how many its job has. Each may be
// null.
// Returns RONDO_SUCCESS.
int rondo_describe_rank(struct rondo_context ctx, uint32_t *rank, uint32_t *rank_count);

// ------------------------------------------------------------------- votes ----

// Value of `newcomers`: all that wait when the votes are counted and for whom most_ranks leaves
// room. The vote waits for as many as least_ranks asks for.
#define RONDO_ALL_PENDING UINT32_MAX

// Votes for a new job of all ranks that are still in the job of `ctx`, and of newcomers. Waits
// until all these ranks have called it and have joined the new job, for at most `timeout_ns`. The
// ranks keep their order and get the first numbers; the newcomers get the next ones, in the order
// in which they came. `next` gets the context of this rank in the new job. It has the configuration
// of `ctx`, except for id, rank and rank_count.
//
// `newcomers`: how many newcomers to admit, at least 1; or RONDO_ALL_PENDING. The call waits until
// as many are there, but leaves the last quarter of the time for joining. `id` is an id of
// rondo_grow_listen on the one member whose process made it, and null on all others. Newcomers that
// still wait when the job has most_ranks ranks get RONDO_ERR_FULL.
//
// If a member is lost meanwhile, those that are left vote once more; so do all if a newcomer that
// was admitted is gone. Either all members that live return RONDO_SUCCESS, or none does; but if the
// time ends on one of them, or the process with `id` (in a shrink that of the lowest rank) dies,
// while the others join, some may have the new job and others an error. Errors may differ: a member
// that votes once more while another one has returned gets RONDO_ERR_ABORTED, whose reason says
// why the other one has. Nobody waits for the vote of a member whose vote has failed.
// Returns RONDO_SUCCESS;
// RONDO_IN_PROGRESS: RONDO_ALL_PENDING, and no newcomer waits or there is room for none; there is
//   no new job;
// RONDO_ERR_MISMATCH: the votes differ; `why` says which rank asked for what;
// RONDO_ERR_FULL: the new job would have more ranks than most_ranks;
// RONDO_ERR_TIMEOUT: members have not voted or not joined in time, or there are not enough
//   newcomers;
// RONDO_ERR_ABORTED: another member has returned an error, or has given up waiting;
// RONDO_ERR_PEER: members were lost, or have left the vote with an error of their own, and the rest
//   cannot go on; the new job would have fewer ranks than least_ranks; or this rank has lost its
//   job;
// RONDO_ERR_EXISTS: another thread votes on this context;
// RONDO_ERR_INVALID: `newcomers` is 0, or a callback called this;
// RONDO_ERR_UNKNOWN: also if `id` is not of this process, or has expired, on all members;
// a status of rondo_init or rondo_unique_id_listen.
int rondo_grow(struct rondo_context ctx, const struct rondo_unique_id *id, uint32_t newcomers,
               int64_t timeout_ns, struct rondo_context *next, char *why);

// Votes for a new job of all ranks that are still in the job of `ctx`, except `count` `excluded`
// ones; `excluded` may be null if `count` is 0. All other ranks call it with the same ranks; those
// that are excluded do not call it, and stay in the old job, which they may leave at any time. As
// rondo_grow without newcomers.
// Returns the same statuses as rondo_grow;
// RONDO_ERR_INVALID: an excluded rank does not exist or is this rank, or a callback called this.
int rondo_shrink(struct rondo_context ctx, const uint32_t *excluded, uint32_t count,
                 int64_t timeout_ns, struct rondo_context *next, char *why);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_ELASTIC_H
