// NCCL_DEBUG=INFO logs with the subsystems INIT and COLL. A process prints a line where it calls a
// collective, so a log proves what was called and in which order; it says nothing of what ran. The
// line that set a communicator up tells which rank called.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/read.h"
#include "sim/common/text.h"

struct reader {
  struct rondo_analyse_record *record;
  struct rondo_analyse_input *in;
  uint64_t unknown_calls; // on communicators whose beginning is not in the log
  uint64_t unknown_line, unknown_offset;
};

// The part of a line before "NCCL INFO".
struct prefix {
  struct rondo_analyse_slice host;
  int64_t pid, device;
};

// Finds " name " in a line and returns the word after it; false if it is not there.
static bool word_after(struct rondo_analyse_slice line, const char *name,
                       struct rondo_analyse_slice *word) {
  size_t size = strlen(name);
  const char *at = memmem(line.data, line.size_bytes, name, size);
  if (!at) {
    return false;
  }
  const char *end = line.data + line.size_bytes;
  const char *start = at + size;
  const char *stop = start;
  while (stop < end && !isspace((unsigned char)*stop) && *stop != ']') {
    stop++;
  }
  *word = (struct rondo_analyse_slice){start, (size_t)(stop - start)};
  return stop > start;
}

static int64_t number_after(struct rondo_analyse_slice line, const char *name, int64_t otherwise) {
  struct rondo_analyse_slice word;
  return word_after(line, name, &word) ? rondo_analyse_slice_integer(word, otherwise) : otherwise;
}

static int64_t hex_after(struct rondo_analyse_slice line, const char *name) {
  struct rondo_analyse_slice word;
  if (!word_after(line, name, &word)) {
    return -1;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < word.size_bytes && isxdigit((unsigned char)word.data[i]) && i < 15; i++) {
    int c = word.data[i] | 0x20;
    value = value << 4 | (uint64_t)(c >= 'a' ? c - 'a' + 10 : c - '0');
  }
  return (int64_t)value;
}

static uint32_t string_after(struct rondo_analyse_record *r, struct rondo_analyse_slice line,
                             const char *name) {
  struct rondo_analyse_slice word;
  return word_after(line, name, &word)
             ? rondo_analyse_strings_add(&r->strings, word.data, word.size_bytes)
             : 0;
}

// Reads "… host:pid:tid [device] " backwards from its end; false if the text is anything else.
static bool prefix_parse(const char *start, const char *end, struct prefix *prefix) {
  const char *bracket = memrchr(start, '[', (size_t)(end - start));
  if (!bracket || bracket == start) {
    return false;
  }
  prefix->device = rondo_analyse_slice_integer(
      (struct rondo_analyse_slice){bracket + 1, (size_t)(end - bracket - 1)}, -1);
  const char *stop = bracket;
  while (stop > start && stop[-1] == ' ') {
    stop--;
  }
  const char *word = stop;
  while (word > start && !isspace((unsigned char)word[-1])) {
    word--;
  }
  const char *second = memrchr(word, ':', (size_t)(stop - word));
  const char *first = second ? memrchr(word, ':', (size_t)(second - word)) : NULL;
  if (!first) {
    return false;
  }
  prefix->host = (struct rondo_analyse_slice){word, (size_t)(first - word)};
  prefix->pid = rondo_analyse_slice_integer(
      (struct rondo_analyse_slice){first + 1, (size_t)(second - first - 1)}, -1);
  return prefix->pid >= 0;
}

// The key of a communicator, which is the same on all its members: its id. For a split
// communicator: the parent with the number and the colour of the split, or else its number among
// the communicators of its size.
static uint32_t communicator_key(struct rondo_analyse_record *r,
                                 const struct rondo_analyse_track *t,
                                 struct rondo_analyse_slice line, int64_t size) {
  struct rondo_analyse_slice id;
  if (word_after(line, " commId ", &id)) {
    return rondo_analyse_strings_add(&r->strings, id.data, id.size_bytes);
  }
  uint32_t parent = string_after(r, line, " parent ");
  const struct rondo_analyse_group_decl *g = parent ? rondo_analyse_track_find(t, parent) : NULL;
  if (g) {
    int64_t child = number_after(line, " childCount ", number_after(line, " splitCount ", 0));
    return rondo_analyse_strings_print(&r->strings, "%s/%lld.%lld",
                                       rondo_analyse_record_text(r, g->key), (long long)child,
                                       (long long)number_after(line, " color ", 0));
  }
  unsigned ordinal = 0;
  for (size_t i = 0; i < t->group_count; i++) {
    ordinal += t->groups[i].size == size;
  }
  return rondo_analyse_strings_print(&r->strings, "communicator %u of %lld ranks", ordinal,
                                     (long long)size);
}

// A line that sets a communicator up: "… comm 0x… rank 0 nranks 2 cudaDev 0 … - Init COMPLETE".
static void init_read(struct reader *reader, const struct prefix *prefix,
                      struct rondo_analyse_slice line) {
  uint32_t handle = string_after(reader->record, line, " comm ");
  int64_t rank = number_after(line, " rank ", -1);
  int64_t size = number_after(line, " nranks ", 0);
  if (!handle || rank < 0 || size <= 0 || !memmem(line.data, line.size_bytes, "COMPLETE", 8)) {
    return;
  }
  struct rondo_analyse_record *r = reader->record;
  uint32_t host =
      rondo_analyse_strings_add(&r->strings, prefix->host.data, prefix->host.size_bytes);
  struct rondo_analyse_track *t = rondo_analyse_record_process(
      r, host, prefix->pid, number_after(line, " cudaDev ", prefix->device));
  struct rondo_analyse_group_decl *g =
      rondo_analyse_track_group(t, communicator_key(r, t, line, size));
  g->handle = handle;
  g->size = size;
  g->own_index = rank;
  g->next_seq = 1;
}

static uint8_t flags_of(enum rondo_analyse_kind kind, bool same_launch, uint32_t stream) {
  bool point_to_point = kind == RONDO_ANALYSE_SEND || kind == RONDO_ANALYSE_RECV;
  bool rooted = kind == RONDO_ANALYSE_BROADCAST || kind == RONDO_ANALYSE_REDUCE ||
                kind == RONDO_ANALYSE_GATHER || kind == RONDO_ANALYSE_SCATTER;
  return (uint8_t)(RONDO_ANALYSE_COUNTS_KNOWN | (stream ? RONDO_ANALYSE_STREAM : 0) |
                   (rooted ? RONDO_ANALYSE_ROOT_KNOWN : 0) |
                   (point_to_point ? RONDO_ANALYSE_UNEVEN_OK : 0) |
                   (same_launch ? RONDO_ANALYSE_SAME_LAUNCH : 0));
}

static void call_fill(struct rondo_analyse_record *r, struct rondo_analyse_slice line,
                      struct rondo_analyse_group_decl *g, struct rondo_analyse_call *call) {
  enum rondo_analyse_kind kind =
      rondo_analyse_kind_of(rondo_analyse_record_text(r, call->name), NULL);
  int64_t launch = hex_after(line, " opCount ");
  int64_t count = number_after(line, " count ", 0);
  bool point_to_point = kind == RONDO_ANALYSE_SEND || kind == RONDO_ANALYSE_RECV;
  call->kind = (uint8_t)kind;
  call->queue = string_after(r, line, " stream ");
  call->flags = flags_of(kind, point_to_point && launch == g->launch, call->queue);
  call->in_count = count > 0 ? (uint64_t)count : 0;
  call->dtype = (uint8_t)rondo_analyse_dtype_of_nccl(number_after(line, " datatype ", -1));
  call->peer = (int32_t)(number_after(line, " root ", -1) & INT32_MAX);
  if (kind == RONDO_ANALYSE_ALL_REDUCE || kind == RONDO_ANALYSE_REDUCE ||
      kind == RONDO_ANALYSE_REDUCE_SCATTER) {
    call->redop = (uint8_t)rondo_analyse_redop_of_nccl(number_after(line, " op ", -1));
  }
  call->seq = point_to_point ? 0 : g->next_seq++;
  g->launch = point_to_point ? launch : RONDO_ANALYSE_NOT_RECORDED;
}

// A line that calls a collective: "AllReduce: opCount 1a … comm 0x… [nranks=8] stream 0x…".
static void call_read(struct reader *reader, const struct prefix *prefix,
                      struct rondo_analyse_slice line, size_t name_bytes) {
  struct rondo_analyse_record *r = reader->record;
  uint32_t handle = string_after(r, line, " comm ");
  for (size_t tried = 0; tried < r->track_count; tried++) {
    struct rondo_analyse_track *t = &r->tracks[(r->last_track + tried) % r->track_count];
    struct rondo_analyse_group_decl *g = rondo_analyse_track_find(t, handle);
    bool same_process = t->pid == prefix->pid &&
                        rondo_analyse_slice_is(prefix->host, rondo_analyse_record_text(r, t->host));
    if (!g || !same_process) {
      continue;
    }
    struct rondo_analyse_call *call = rondo_analyse_track_call(t);
    call->group = (uint32_t)(g - t->groups);
    call->name = rondo_analyse_strings_add(&r->strings, line.data + 1, name_bytes);
    call_fill(r, line, g, call);
    r->last_track = (size_t)(t - r->tracks);
    return;
  }
  if (!reader->unknown_calls++) {
    reader->unknown_line = reader->in->line;
    reader->unknown_offset = rondo_analyse_input_offset(reader->in);
  }
}

static void line_read(struct reader *reader, struct rondo_analyse_slice line) {
  static const char mark[] = "NCCL INFO";
  struct prefix prefix;
  const char *found = memmem(line.data, line.size_bytes, mark, sizeof mark - 1);
  if (!found || !prefix_parse(line.data, found, &prefix)) {
    return;
  }
  const char *text = found + sizeof mark - 1; // with the space before the message
  struct rondo_analyse_slice message = {text, (size_t)(line.data + line.size_bytes - text)};
  const char *op = memmem(message.data, message.size_bytes, ": opCount ", 10);
  if (op && op > message.data + 1) {
    call_read(reader, &prefix, message, (size_t)(op - message.data - 1));
  } else if (memmem(message.data, message.size_bytes, "Init ", 5)) {
    init_read(reader, &prefix, message);
  }
}

void rondo_analyse_read_nccl(struct rondo_analyse_record *r, struct rondo_analyse_input *in) {
  struct reader reader = {.record = r, .in = in};
  struct rondo_analyse_slice line;
  r->source = RONDO_ANALYSE_NCCL;
  while (rondo_analyse_input_line(in, &line)) {
    line_read(&reader, line);
  }
  if (reader.unknown_calls) {
    rondo_analyse_record_problem(
        r, reader.unknown_line, reader.unknown_offset,
        "%llu calls on communicators whose set-up is not in this log are left out: log with "
        "NCCL_DEBUG_SUBSYS=INIT,COLL from the start",
        (unsigned long long)reader.unknown_calls);
  }
  if (!r->track_count) {
    rondo_analyse_record_problem(r, 0, 0,
                                 "is of no known kind: no pickle, no JSON, and no line with "
                                 "\"NCCL INFO\" that sets up a communicator");
    r->source = RONDO_ANALYSE_NOTHING;
  } else if (r->track_count == 1 && r->rank_hint >= 0 && r->rank_named) {
    r->tracks[0].rank = r->rank_hint;
  }
}
