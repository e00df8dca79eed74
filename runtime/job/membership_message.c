#include "runtime/job/membership_message.h"

#define HEAD_BYTES 5u
#define MOST_ITEMS 1024u // of one report
#define RANGE_BYTES 12u
#define BUFFER_BYTES RONDO_MEMBERSHIP_MESSAGE_BYTES

const char *rondo_membership_type_name(uint8_t type) {
  static const char *const names[RONDO_MEMBERSHIP_TYPES] = {
      "none",    "join",    "joined",   "rejected", "roster", "epoch",   "ack",
      "fetch",   "report",  "watch",    "verdict",  "probe",  "answer",  "prepare",
      "promise", "propose", "accepted", "refused",  "enter",  "admitted"};
  return type < RONDO_MEMBERSHIP_TYPES ? names[type] : "unknown";
}

// -------------------------------------------------------------------- reading ---

uint32_t rondo_membership_roster_parts(uint32_t size) {
  return (size + RONDO_MEMBERSHIP_PART_BYTES - 1) / RONDO_MEMBERSHIP_PART_BYTES;
}

static void roster_read(struct rondo_wire_reader *r, struct rondo_membership_message *m) {
  m->digest = rondo_wire_get_u64(r);
  m->size = rondo_wire_get_u32(r);
  m->index = rondo_wire_get_u32(r);
  m->count = m->size <= RONDO_ROSTER_MAX_BYTES ? rondo_membership_roster_parts(m->size) : 0;
  if (m->index >= m->count) {
    r->bad = 1;
    return;
  }
  uint32_t rest = m->size - m->index * RONDO_MEMBERSHIP_PART_BYTES;
  if (r->size != (rest < RONDO_MEMBERSHIP_PART_BYTES ? rest : RONDO_MEMBERSHIP_PART_BYTES))
    r->bad = 1;
  m->body = *r;
  r->bytes += r->size;
  r->size = 0;
}

// Checks one change: its length, then the removals.
static void change_read(struct rondo_wire_reader *r) {
  uint32_t size = rondo_wire_get_u32(r);
  if (r->bad || size > RONDO_EPOCH_CHANGE_BYTES || size > r->size) {
    r->bad = 1;
    return;
  }
  struct rondo_wire_reader change = {r->bytes, size, 0};
  while (change.size && !change.bad) {
    char text[RONDO_EPOCH_TEXT_BYTES];
    (void)rondo_wire_get_u8(&change);
    (void)rondo_wire_get_u64(&change);
    rondo_wire_get_text(&change, text, sizeof text);
  }
  r->bad = change.bad;
  r->bytes += size;
  r->size -= size;
}

static void epoch_read(struct rondo_wire_reader *r, struct rondo_membership_message *m) {
  m->index = rondo_wire_get_u32(r);
  m->count = rondo_wire_get_u32(r);
  m->digest = rondo_wire_get_u64(r);
  m->body = *r;
  if (m->index == 0 || m->count == 0 || m->count > r->size / 4 ||
      m->index > RONDO_EPOCH_MAX_NUMBER - m->count)
    r->bad = 1;
  for (uint32_t i = 0; i < m->count && !r->bad; i++)
    change_read(r);
}

static void item_read(struct rondo_wire_reader *r, struct rondo_report_item *item) {
  item->kind = rondo_wire_get_u8(r);
  item->state = rondo_wire_get_u8(r);
  item->process = rondo_wire_get_u32(r);
  item->by = rondo_wire_get_u32(r);
  rondo_wire_get_text(r, item->text, sizeof item->text);
}

static void report_read(struct rondo_wire_reader *r, struct rondo_membership_message *m) {
  struct rondo_report_item item;
  m->count = rondo_wire_get_u16(r);
  m->body = *r;
  if (m->count == 0 || m->count > MOST_ITEMS)
    r->bad = 1;
  for (uint32_t i = 0; i < m->count && !r->bad; i++) {
    item_read(r, &item);
    if (item.kind < RONDO_REPORT_LEFT || item.kind > RONDO_REPORT_RANK ||
        item.state > RONDO_INSPECTED_DEAD || item.process >= RONDO_MAX_RANKS ||
        item.by >= RONDO_MAX_RANKS)
      r->bad = 1;
  }
}

static void vote_read(struct rondo_wire_reader *r, struct rondo_membership_message *m) {
  m->instance = rondo_wire_get_u32(r);
  m->ballot = rondo_wire_get_u64(r);
  if (m->instance == 0 || m->instance > RONDO_EPOCH_MAX_NUMBER || m->ballot == 0)
    r->bad = 1;
  if (m->type == RONDO_MEMBERSHIP_PROMISE) {
    m->fresh = rondo_wire_get_u8(r);
    m->accepted = rondo_wire_get_u64(r);
  }
  if (m->type == RONDO_MEMBERSHIP_REFUSED) {
    m->promised = rondo_wire_get_u64(r);
    m->flag = rondo_wire_get_u8(r);
  }
  bool has_change = m->type == RONDO_MEMBERSHIP_PROPOSE || m->accepted ||
                    (m->type == RONDO_MEMBERSHIP_PREPARE && r->size);
  if (has_change) {
    m->count = 1;
    m->body = *r;
    change_read(r);
  }
}

static void watch_read(struct rondo_wire_reader *r, struct rondo_membership_message *m) {
  m->process = rondo_wire_get_u32(r);
  if (m->process >= RONDO_MAX_RANKS)
    r->bad = 1;
  if (m->type != RONDO_MEMBERSHIP_VERDICT)
    return;
  m->flag = rondo_wire_get_u8(r);
  m->state = rondo_wire_get_u8(r);
  if (m->state > RONDO_INSPECTED_DEAD)
    r->bad = 1;
}

static void body_read(struct rondo_wire_reader *r, struct rondo_membership_message *m) {
  switch (m->type) {
  case RONDO_MEMBERSHIP_ROSTER:
    roster_read(r, m);
    break;
  case RONDO_MEMBERSHIP_EPOCH:
    epoch_read(r, m);
    break;
  case RONDO_MEMBERSHIP_REPORT:
    report_read(r, m);
    break;
  case RONDO_MEMBERSHIP_FETCH:
    m->flag = rondo_wire_get_u8(r);
    break;
  case RONDO_MEMBERSHIP_PROBE:
    m->flag = rondo_wire_get_u8(r);
    m->stamp_ns = rondo_wire_get_u64(r);
    break;
  case RONDO_MEMBERSHIP_ANSWER:
    m->age_ns = rondo_wire_get_u64(r);
    m->stamp_ns = rondo_wire_get_u64(r);
    break;
  case RONDO_MEMBERSHIP_WATCH:
  case RONDO_MEMBERSHIP_VERDICT:
    watch_read(r, m);
    break;
  case RONDO_MEMBERSHIP_ACK:
    break;
  default:
    vote_read(r, m);
  }
}

bool rondo_membership_message_decode(const void *bytes, size_t size,
                                     struct rondo_membership_message *out) {
  struct rondo_wire_reader r = {bytes, size, 0};
  memset(out, 0, sizeof *out);
  out->type = rondo_wire_get_u8(&r);
  out->epoch = rondo_wire_get_u32(&r);
  if (size > RONDO_MEMBERSHIP_MESSAGE_BYTES || out->type < RONDO_MEMBERSHIP_ROSTER ||
      out->type > RONDO_MEMBERSHIP_REFUSED || out->epoch > RONDO_EPOCH_MAX_NUMBER)
    r.bad = 1;
  else
    body_read(&r, out);
  return rondo_wire_is_done(&r) && out->flag <= 1;
}

bool rondo_membership_join_decode(const void *bytes, size_t size, struct rondo_join *out) {
  struct rondo_wire_reader r = {bytes, size, 0};
  memset(out, 0, sizeof *out);
  uint8_t type = rondo_wire_get_u8(&r);
  uint32_t epoch = rondo_wire_get_u32(&r);
  out->who = rondo_wire_get_u64(&r);
  out->machine = rondo_wire_get_u64(&r);
  out->rank_count = rondo_wire_get_u32(&r);
  uint8_t is_leaving = rondo_wire_get_u8(&r);
  out->range_count = rondo_wire_get_u32(&r);
  out->is_leaving = is_leaving;
  if (type != RONDO_MEMBERSHIP_JOIN || epoch || is_leaving > 1 || out->rank_count == 0 ||
      out->rank_count > RONDO_MAX_RANKS || out->range_count == 0 ||
      out->range_count > r.size / RANGE_BYTES)
    return false;
  out->ranges = r.bytes;
  r.bytes += (size_t)RANGE_BYTES * out->range_count;
  r.size -= (size_t)RANGE_BYTES * out->range_count;
  out->size = rondo_wire_get_u32(&r);
  if (r.bad || out->size > RONDO_ROSTER_ENTRY_BYTES || out->size != r.size)
    return false;
  out->bytes = r.bytes;
  return true;
}

bool rondo_membership_joined_decode(const void *bytes, size_t size, struct rondo_joined *out) {
  struct rondo_wire_reader r = {bytes, size, 0};
  uint8_t type = rondo_wire_get_u8(&r);
  uint32_t epoch = rondo_wire_get_u32(&r);
  out->status = rondo_wire_get_u8(&r);
  out->joined_count = rondo_wire_get_u32(&r);
  out->rank_count = rondo_wire_get_u32(&r);
  rondo_wire_get_text(&r, out->text, sizeof out->text);
  return (type == RONDO_MEMBERSHIP_JOINED || type == RONDO_MEMBERSHIP_REJECTED) && epoch == 0 &&
         rondo_wire_is_done(&r);
}

bool rondo_membership_enter_decode(const void *bytes, size_t size, struct rondo_enter *out) {
  struct rondo_wire_reader r = {bytes, size, 0};
  uint8_t type = rondo_wire_get_u8(&r);
  uint32_t epoch = rondo_wire_get_u32(&r);
  out->who = rondo_wire_get_u64(&r);
  rondo_wire_get_text(&r, out->text, sizeof out->text);
  return type == RONDO_MEMBERSHIP_ENTER && epoch == 0 && rondo_wire_is_done(&r) && out->who;
}

bool rondo_membership_admitted_decode(const void *bytes, size_t size, struct rondo_admitted *out) {
  struct rondo_wire_reader r = {bytes, size, 0};
  uint8_t type = rondo_wire_get_u8(&r);
  uint32_t epoch = rondo_wire_get_u32(&r);
  out->rank = rondo_wire_get_u32(&r);
  out->rank_count = rondo_wire_get_u32(&r);
  out->least_ranks = rondo_wire_get_u32(&r);
  out->most_ranks = rondo_wire_get_u32(&r);
  rondo_wire_get(&r, out->id, sizeof out->id);
  return type == RONDO_MEMBERSHIP_ADMITTED && epoch == 0 && rondo_wire_is_done(&r) &&
         out->rank < out->rank_count && out->rank_count <= RONDO_MAX_RANKS &&
         out->rank_count >= out->least_ranks &&
         (!out->most_ranks || out->rank_count <= out->most_ranks);
}

void rondo_membership_report_next(struct rondo_wire_reader *body, struct rondo_report_item *out) {
  item_read(body, out);
}

struct rondo_shared_bytes *rondo_membership_change_next(struct rondo_wire_reader *body) {
  uint32_t size = rondo_wire_get_u32(body);
  const uint8_t *bytes = body->bytes;
  body->bytes += size;
  body->size -= size;
  return rondo_shared_bytes_create(bytes, size);
}

// -------------------------------------------------------------------- writing ---

static struct rondo_wire_writer writer_begin(uint8_t *bytes, size_t capacity, uint8_t type,
                                             uint32_t epoch) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = capacity};
  rondo_wire_put_u8(&w, type);
  rondo_wire_put_u32(&w, epoch);
  return w;
}

static struct rondo_shared_bytes *writer_share(const struct rondo_wire_writer *w) {
  return w->full ? NULL : rondo_shared_bytes_create(w->bytes, (uint32_t)w->size);
}

static void vote_write(struct rondo_wire_writer *w, const struct rondo_membership_message *m) {
  rondo_wire_put_u32(w, m->instance);
  rondo_wire_put_u64(w, m->ballot);
  if (m->type == RONDO_MEMBERSHIP_PROMISE) {
    rondo_wire_put_u8(w, m->fresh);
    rondo_wire_put_u64(w, m->accepted);
  }
  if (m->type == RONDO_MEMBERSHIP_REFUSED) {
    rondo_wire_put_u64(w, m->promised);
    rondo_wire_put_u8(w, m->flag);
  }
}

struct rondo_shared_bytes *
rondo_membership_message_encode(const struct rondo_membership_message *m) {
  uint8_t bytes[64];
  struct rondo_wire_writer w = writer_begin(bytes, sizeof bytes, m->type, m->epoch);
  switch (m->type) {
  case RONDO_MEMBERSHIP_FETCH:
    rondo_wire_put_u8(&w, m->flag);
    break;
  case RONDO_MEMBERSHIP_PROBE:
    rondo_wire_put_u8(&w, m->flag);
    rondo_wire_put_u64(&w, m->stamp_ns);
    break;
  case RONDO_MEMBERSHIP_ANSWER:
    rondo_wire_put_u64(&w, m->age_ns);
    rondo_wire_put_u64(&w, m->stamp_ns);
    break;
  case RONDO_MEMBERSHIP_WATCH:
    rondo_wire_put_u32(&w, m->process);
    break;
  case RONDO_MEMBERSHIP_VERDICT:
    rondo_wire_put_u32(&w, m->process);
    rondo_wire_put_u8(&w, m->flag);
    rondo_wire_put_u8(&w, m->state);
    break;
  case RONDO_MEMBERSHIP_ACK:
    break;
  default:
    vote_write(&w, m);
  }
  return writer_share(&w);
}

struct rondo_shared_bytes *rondo_membership_part_encode(const struct rondo_roster *roster,
                                                        uint32_t index) {
  uint32_t from = index * RONDO_MEMBERSHIP_PART_BYTES;
  uint32_t rest = roster->bytes->size - from;
  uint32_t part = rest < RONDO_MEMBERSHIP_PART_BYTES ? rest : RONDO_MEMBERSHIP_PART_BYTES;
  uint32_t size = HEAD_BYTES + 16 + part;
  struct rondo_shared_bytes *shared = rondo_shared_bytes_create(NULL, size);
  if (!shared)
    return NULL;
  struct rondo_wire_writer w = writer_begin(shared->bytes, size, RONDO_MEMBERSHIP_ROSTER, 0);
  rondo_wire_put_u64(&w, roster->digest);
  rondo_wire_put_u32(&w, roster->bytes->size);
  rondo_wire_put_u32(&w, index);
  rondo_wire_put(&w, roster->bytes->bytes + from, part);
  return shared;
}

struct rondo_shared_bytes *rondo_membership_roster_encode(struct rondo_roster *roster,
                                                          uint32_t index) {
  uint32_t count = rondo_membership_roster_parts(roster->bytes->size);
  if (!roster->parts) {
    roster->parts = calloc(count, sizeof(struct rondo_shared_bytes *));
    roster->part_count = roster->parts ? count : 0;
  }
  if (!roster->parts)
    return NULL;
  if (!roster->parts[index])
    roster->parts[index] = rondo_membership_part_encode(roster, index);
  return rondo_shared_bytes_get(roster->parts[index]);
}

static void change_write(struct rondo_wire_writer *w, const struct rondo_shared_bytes *change) {
  rondo_wire_put_u32(w, change->size);
  rondo_wire_put(w, change->bytes, change->size);
}

struct rondo_shared_bytes *rondo_membership_epoch_encode(const struct rondo_epoch *epoch,
                                                         uint32_t first) {
  const struct rondo_epoch_change *last = epoch->change;
  uint32_t size = HEAD_BYTES + 16;
  // The oldest ones, as many as fit.
  for (const struct rondo_epoch_change *c = last; c && c->number >= first; c = c->before)
    size += 4 + c->removals->size;
  while (last && last->number > first && size > RONDO_MEMBERSHIP_MESSAGE_BYTES) {
    size -= 4 + last->removals->size;
    last = last->before;
  }
  if (!last || last->number < first)
    return NULL;
  uint32_t count = last->number - first + 1;
  const struct rondo_epoch_change **changes = malloc(count * sizeof(struct rondo_epoch_change *));
  struct rondo_shared_bytes *shared = rondo_shared_bytes_create(NULL, size);
  if (changes && shared) {
    struct rondo_wire_writer w =
        writer_begin(shared->bytes, size, RONDO_MEMBERSHIP_EPOCH, epoch->number);
    rondo_wire_put_u32(&w, first);
    rondo_wire_put_u32(&w, count);
    rondo_wire_put_u64(&w, last->digest);
    for (uint32_t i = count; i-- > 0 && last; last = last->before)
      changes[i] = last;
    for (uint32_t i = 0; i < count; i++)
      change_write(&w, changes[i]->removals);
  } else {
    rondo_shared_bytes_put(shared);
    shared = NULL;
  }
  free(changes);
  return shared;
}

struct rondo_shared_bytes *rondo_membership_vote_encode(const struct rondo_membership_message *m,
                                                        const struct rondo_shared_bytes *change) {
  uint32_t size = HEAD_BYTES + 25 + (change ? change->size : 0);
  uint8_t *bytes = malloc(size);
  if (!bytes)
    return NULL;
  struct rondo_wire_writer w = writer_begin(bytes, size, m->type, m->epoch);
  vote_write(&w, m);
  if (change)
    change_write(&w, change);
  struct rondo_shared_bytes *shared = writer_share(&w);
  free(bytes);
  return shared;
}

struct rondo_shared_bytes *rondo_membership_report_encode(uint32_t epoch,
                                                          const struct rondo_report_item *items,
                                                          uint32_t *count) {
  uint8_t *bytes = malloc(BUFFER_BYTES);
  uint32_t written = 0;
  if (!bytes)
    return NULL;
  struct rondo_wire_writer w = writer_begin(bytes, BUFFER_BYTES, RONDO_MEMBERSHIP_REPORT, epoch);
  rondo_wire_put_u16(&w, 0);
  while (written < *count && written < MOST_ITEMS) {
    struct rondo_wire_writer before = w;
    rondo_wire_put_u8(&w, items[written].kind);
    rondo_wire_put_u8(&w, items[written].state);
    rondo_wire_put_u32(&w, items[written].process);
    rondo_wire_put_u32(&w, items[written].by);
    rondo_wire_put_text(&w, items[written].text);
    if (w.full) {
      w = before;
      break;
    }
    written++;
  }
  struct rondo_wire_writer number = {.bytes = bytes + HEAD_BYTES, .capacity = 2};
  rondo_wire_put_u16(&number, (uint16_t)written);
  *count = written;
  struct rondo_shared_bytes *shared = writer_share(&w);
  free(bytes);
  return shared;
}

struct rondo_shared_bytes *rondo_membership_join_encode(const struct rondo_join *join,
                                                        const struct rondo_rank_range *ranges) {
  uint32_t size = HEAD_BYTES + 8 + 8 + 4 + 1 + 4 + RANGE_BYTES * join->range_count + 4 + join->size;
  struct rondo_shared_bytes *shared = rondo_shared_bytes_create(NULL, size);
  if (!shared)
    return NULL;
  struct rondo_wire_writer w = writer_begin(shared->bytes, size, RONDO_MEMBERSHIP_JOIN, 0);
  rondo_wire_put_u64(&w, join->who);
  rondo_wire_put_u64(&w, join->machine);
  rondo_wire_put_u32(&w, join->rank_count);
  rondo_wire_put_u8(&w, join->is_leaving);
  rondo_wire_put_u32(&w, join->range_count);
  for (uint32_t i = 0; i < join->range_count; i++) {
    rondo_wire_put_u32(&w, ranges[i].first);
    rondo_wire_put_u32(&w, ranges[i].count);
    rondo_wire_put_u32(&w, ranges[i].stride);
  }
  rondo_wire_put_u32(&w, join->size);
  rondo_wire_put(&w, join->bytes, join->size);
  return shared;
}

struct rondo_shared_bytes *rondo_membership_joined_encode(uint8_t type,
                                                          const struct rondo_joined *joined) {
  uint8_t bytes[HEAD_BYTES + 9 + 1 + RONDO_WIRE_TEXT_BYTES];
  struct rondo_wire_writer w = writer_begin(bytes, sizeof bytes, type, 0);
  rondo_wire_put_u8(&w, joined->status);
  rondo_wire_put_u32(&w, joined->joined_count);
  rondo_wire_put_u32(&w, joined->rank_count);
  rondo_wire_put_text(&w, joined->text);
  return writer_share(&w);
}

struct rondo_shared_bytes *rondo_membership_enter_encode(const struct rondo_enter *enter) {
  uint8_t bytes[HEAD_BYTES + 8 + 1 + RONDO_WIRE_TEXT_BYTES];
  struct rondo_wire_writer w = writer_begin(bytes, sizeof bytes, RONDO_MEMBERSHIP_ENTER, 0);
  rondo_wire_put_u64(&w, enter->who);
  rondo_wire_put_text(&w, enter->text);
  return writer_share(&w);
}

struct rondo_shared_bytes *rondo_membership_admitted_encode(const struct rondo_admitted *admitted) {
  uint8_t bytes[HEAD_BYTES + 16 + RONDO_SEALED_ID_BYTES];
  struct rondo_wire_writer w = writer_begin(bytes, sizeof bytes, RONDO_MEMBERSHIP_ADMITTED, 0);
  rondo_wire_put_u32(&w, admitted->rank);
  rondo_wire_put_u32(&w, admitted->rank_count);
  rondo_wire_put_u32(&w, admitted->least_ranks);
  rondo_wire_put_u32(&w, admitted->most_ranks);
  rondo_wire_put(&w, admitted->id, sizeof admitted->id);
  return writer_share(&w);
}
