#include "runtime/job/epoch_log.h"

#include <stdio.h>

#include "base/digest.h"
#include "runtime/net/wire.h"

#define HEAD_BYTES 26u // magic, version, kind, size of the body, job
#define TAIL_BYTES 8u

enum record_kind { RECORD_ROSTER = 1, RECORD_CHANGE = 2, RECORD_VOTE = 3 };

static const uint8_t magic[4] = {'R', 'n', 'L', 'g'};

// -------------------------------------------------------------------- writing ---

static struct rondo_shared_bytes *record_begin(const uint8_t *job, uint8_t kind, size_t size,
                                               struct rondo_wire_writer *w) {
  struct rondo_shared_bytes *record =
      rondo_shared_bytes_create(NULL, (uint32_t)(HEAD_BYTES + size + TAIL_BYTES));
  if (!record)
    return NULL;
  *w = (struct rondo_wire_writer){.bytes = record->bytes, .capacity = record->size};
  rondo_wire_put(w, magic, sizeof magic);
  rondo_wire_put_u8(w, RONDO_EPOCH_LOG_VERSION);
  rondo_wire_put_u8(w, kind);
  rondo_wire_put_u32(w, (uint32_t)size);
  rondo_wire_put(w, job, RONDO_EPOCH_LOG_JOB_BYTES);
  return record;
}

static void record_finish(struct rondo_wire_writer *w) {
  rondo_wire_put_u64(w, rondo_digest_bytes(0, w->bytes, w->size));
}

struct rondo_shared_bytes *rondo_epoch_log_roster(const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES],
                                                  const struct rondo_roster *roster) {
  struct rondo_wire_writer w;
  struct rondo_shared_bytes *record = record_begin(job, RECORD_ROSTER, roster->bytes->size, &w);
  if (!record)
    return NULL;
  rondo_wire_put(&w, roster->bytes->bytes, roster->bytes->size);
  record_finish(&w);
  return record;
}

struct rondo_shared_bytes *rondo_epoch_log_change(const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES],
                                                  const struct rondo_epoch_change *change) {
  struct rondo_wire_writer w;
  struct rondo_shared_bytes *record =
      record_begin(job, RECORD_CHANGE, 12 + (size_t)change->removals->size, &w);
  if (!record)
    return NULL;
  rondo_wire_put_u32(&w, change->number);
  rondo_wire_put_u64(&w, change->digest);
  rondo_wire_put(&w, change->removals->bytes, change->removals->size);
  record_finish(&w);
  return record;
}

struct rondo_shared_bytes *rondo_epoch_log_vote(const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES],
                                                uint32_t instance, uint64_t promised,
                                                uint64_t accepted_ballot,
                                                const struct rondo_shared_bytes *accepted) {
  struct rondo_wire_writer w;
  struct rondo_shared_bytes *record =
      record_begin(job, RECORD_VOTE, 20 + (size_t)(accepted ? accepted->size : 0), &w);
  if (!record)
    return NULL;
  rondo_wire_put_u32(&w, instance);
  rondo_wire_put_u64(&w, promised);
  rondo_wire_put_u64(&w, accepted_ballot);
  if (accepted)
    rondo_wire_put(&w, accepted->bytes, accepted->size);
  record_finish(&w);
  return record;
}

// -------------------------------------------------------------------- reading ---

struct record {
  uint8_t kind;
  struct rondo_wire_reader body;
  size_t size; // of the whole record
};

// Reads the record at the front. Returns 1; 0 if it is torn or damaged; or -1 if it is whole and of
// another job or version: `text` says so.
static int record_read(const uint8_t *bytes, size_t size, const uint8_t *job, struct record *record,
                       char *text) {
  struct rondo_wire_reader r = {bytes, size, 0};
  uint8_t head[sizeof magic];
  uint8_t whose[RONDO_EPOCH_LOG_JOB_BYTES];
  rondo_wire_get(&r, head, sizeof head);
  uint8_t version = rondo_wire_get_u8(&r);
  record->kind = rondo_wire_get_u8(&r);
  uint32_t body = rondo_wire_get_u32(&r);
  rondo_wire_get(&r, whose, sizeof whose);
  if (r.bad || memcmp(head, magic, sizeof magic) != 0)
    return 0;
  if (version != RONDO_EPOCH_LOG_VERSION) {
    (void)snprintf(text, RONDO_EPOCH_LOG_TEXT_BYTES,
                   "the log has version %u, this library reads version %u", version,
                   RONDO_EPOCH_LOG_VERSION);
    return -1;
  }
  if (body > r.size || r.size - body < TAIL_BYTES)
    return 0;
  record->body = (struct rondo_wire_reader){r.bytes, body, 0};
  record->size = HEAD_BYTES + body + TAIL_BYTES;
  struct rondo_wire_reader tail = {r.bytes + body, TAIL_BYTES, 0};
  if (rondo_wire_get_u64(&tail) != rondo_digest_bytes(0, bytes, HEAD_BYTES + body))
    return 0;
  if (memcmp(whose, job, sizeof whose) == 0)
    return 1;
  (void)snprintf(text, RONDO_EPOCH_LOG_TEXT_BYTES, "the log is of another job");
  return -1;
}

static bool log_take_roster(struct rondo_epoch_log *log, struct rondo_wire_reader *body) {
  if (log->epoch)
    return false;
  struct rondo_shared_bytes *bytes = rondo_shared_bytes_create(body->bytes, (uint32_t)body->size);
  struct rondo_roster *roster = bytes ? rondo_roster_decode(bytes) : NULL;
  if (roster)
    log->epoch = rondo_epoch_begin(roster);
  rondo_roster_put(roster);
  rondo_shared_bytes_put(bytes);
  return log->epoch != NULL;
}

static void log_forget_vote(struct rondo_epoch_log *log) {
  log->instance = 0;
  log->promised = log->accepted_ballot = 0;
  rondo_shared_bytes_put(log->accepted);
  log->accepted = NULL;
}

static bool log_take_change(struct rondo_epoch_log *log, struct rondo_wire_reader *body) {
  uint32_t number = rondo_wire_get_u32(body);
  uint64_t digest = rondo_wire_get_u64(body);
  if (body->bad || !log->epoch)
    return false;
  if (number != log->epoch->number + 1)
    return true; // one before it is missing, or it is known
  struct rondo_shared_bytes *removals =
      rondo_shared_bytes_create(body->bytes, (uint32_t)body->size);
  struct rondo_epoch *next = removals ? rondo_epoch_next(log->epoch, removals) : NULL;
  rondo_shared_bytes_put(removals);
  if (!next || next->digest != digest) {
    rondo_epoch_put(next);
    return false;
  }
  rondo_epoch_put(log->epoch);
  log->epoch = next;
  if (log->instance <= number)
    log_forget_vote(log);
  return true;
}

static bool log_take_vote(struct rondo_epoch_log *log, struct rondo_wire_reader *body) {
  uint32_t instance = rondo_wire_get_u32(body);
  uint64_t promised = rondo_wire_get_u64(body);
  uint64_t accepted = rondo_wire_get_u64(body);
  if (body->bad || !log->epoch || accepted > promised)
    return false;
  if (instance <= log->epoch->number || instance < log->instance)
    return true;
  log_forget_vote(log);
  log->instance = instance;
  log->promised = promised;
  log->accepted_ballot = accepted;
  if (accepted)
    log->accepted = rondo_shared_bytes_create(body->bytes, (uint32_t)body->size);
  return !accepted || log->accepted;
}

static bool log_take(struct rondo_epoch_log *log, struct record *record) {
  switch (record->kind) {
  case RECORD_ROSTER:
    return log_take_roster(log, &record->body);
  case RECORD_CHANGE:
    return log_take_change(log, &record->body);
  default:
    return record->kind == RECORD_VOTE && log_take_vote(log, &record->body);
  }
}

// True if no whole record of this format begins anywhere in the bytes: then what is before was the
// last one.
static bool bytes_end_log(const uint8_t *bytes, size_t size, const uint8_t *job) {
  char text[RONDO_EPOCH_LOG_TEXT_BYTES];
  struct record record;
  for (size_t at = 1; at + HEAD_BYTES + TAIL_BYTES <= size; at++)
    if (bytes[at] == magic[0] && record_read(bytes + at, size - at, job, &record, text) == 1)
      return false;
  return true;
}

bool rondo_epoch_log_read(const void *bytes, size_t size,
                          const uint8_t job[RONDO_EPOCH_LOG_JOB_BYTES], struct rondo_epoch_log *log,
                          char *text) {
  memset(log, 0, sizeof *log);
  *text = '\0';
  while (log->size < size) {
    const uint8_t *at = (const uint8_t *)bytes + log->size;
    size_t rest = size - log->size;
    struct record record;
    int is_whole = record_read(at, rest, job, &record, text);
    if (is_whole == 0 && bytes_end_log(at, rest, job))
      return true;
    if (is_whole == 1 && log_take(log, &record)) {
      log->size += record.size;
      continue;
    }
    if (is_whole >= 0)
      (void)snprintf(text, RONDO_EPOCH_LOG_TEXT_BYTES, "the log is damaged at byte %zu", log->size);
    rondo_epoch_log_fini(log);
    return false;
  }
  return true;
}

void rondo_epoch_log_fini(struct rondo_epoch_log *log) {
  rondo_epoch_put(log->epoch);
  rondo_shared_bytes_put(log->accepted);
  memset(log, 0, sizeof *log);
}
