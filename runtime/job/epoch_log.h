// The log of a keeper: what it has promised, accepted and seen opened, so that it can go on after
// it has ended. Pure: bytes in, bytes out.
//
// Records are appended one after another, and never changed:
//
//   magic, version, kind, size, job | body | digest of all before
//
// ROSTER is the first; CHANGE, one for each epoch that was opened; VOTE, what was promised and
// accepted for the next epoch: the last one counts. CHANGE records may be missing, because the disk
// was full for a while: then the vote is for a later epoch than the next, and the changes before it
// have to be asked for.
#ifndef RONDO_RUNTIME_JOB_EPOCH_LOG_H
#define RONDO_RUNTIME_JOB_EPOCH_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/epoch.h"

#define RONDO_EPOCH_LOG_VERSION 1u
#define RONDO_EPOCH_LOG_JOB_BYTES 16u
#define RONDO_EPOCH_LOG_TEXT_BYTES 200u

// What a log says.
struct rondo_epoch_log {
  struct rondo_epoch *epoch; // the last that was opened; null: the log is empty
  uint32_t instance;         // the epoch that the vote is for; 0: there is none
  uint64_t promised, accepted_ballot;
  struct rondo_shared_bytes *accepted; // null: nothing
  size_t size;                         // of the whole records: what follows is to be cut off
};

// Reads a log. A torn last record is left out: `size` is then less than `bytes`. Returns false and
// writes the reason to `text` (RONDO_EPOCH_LOG_TEXT_BYTES) if the log is of another job or version,
// or damaged before its last record, or without memory.
bool rondo_epoch_log_read(const void *bytes, size_t size,
                          const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES], struct rondo_epoch_log *log,
                          char *text);
void rondo_epoch_log_fini(struct rondo_epoch_log *log);

// Make records with one reference; null without memory.
struct rondo_shared_bytes *rondo_epoch_log_roster(const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES],
                                                  const struct rondo_roster *roster);
struct rondo_shared_bytes *rondo_epoch_log_change(const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES],
                                                  const struct rondo_epoch_change *change);
struct rondo_shared_bytes *rondo_epoch_log_vote(const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES],
                                                uint32_t instance, uint64_t promised,
                                                uint64_t accepted_ballot,
                                                const struct rondo_shared_bytes *accepted);

#endif // RONDO_RUNTIME_JOB_EPOCH_LOG_H
