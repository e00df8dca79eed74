#include "sim/analyse/call.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const kind_names[RONDO_ANALYSE_KIND_COUNT] = {
    "other",  "all_reduce", "all_gather", "reduce_scatter", "reduce", "broadcast", "all_to_all",
    "gather", "scatter",    "barrier",    "send_recv",      "send",   "recv",      "coalesced"};
static const char *const state_names[] = {"called", "scheduled", "started", "completed"};
static const char *const dtype_names[RONDO_ANALYSE_DTYPE_COUNT] = {
    "",        "int8",     "uint8",   "int16",   "int32",       "uint32",      "int64", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2", "bool"};
static const char *const redop_names[RONDO_ANALYSE_REDOP_COUNT] = {"",    "sum", "prod",
                                                                   "max", "min", "avg"};

const char *rondo_analyse_kind_name(int kind) { return kind_names[kind]; }

const char *rondo_analyse_state_name(int state) { return state_names[state]; }

const char *rondo_analyse_dtype_name(int dtype) { return dtype_names[dtype]; }

const char *rondo_analyse_redop_name(int redop) { return redop_names[redop]; }

static char byte_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c; }

// The letters of a name in lower case, without library prefix, underscores and ranks.
static void name_squeeze(const char *name, char *out, size_t size) {
  const char *colon = strchr(name, ':');
  const char *end = out + size - 1;
  for (const char *p = colon ? colon + 1 : name; *p && *p != ' ' && out < end; p++) {
    char c = byte_lower(*p);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      *out++ = c;
    }
  }
  *out = 0;
}

struct spelling {
  const char *text;
  enum rondo_analyse_kind kind;
  bool uneven;
};

// The first entry that the name begins with counts, so the longer of two alike comes first.
static const struct spelling spellings[] = {
    {"allreducebarrier", RONDO_ANALYSE_BARRIER, false},
    {"allreduce", RONDO_ANALYSE_ALL_REDUCE, false},
    {"reducescatterv", RONDO_ANALYSE_REDUCE_SCATTER, true},
    {"reducescatter", RONDO_ANALYSE_REDUCE_SCATTER, false},
    {"reduceoop", RONDO_ANALYSE_REDUCE, true},
    {"reduce", RONDO_ANALYSE_REDUCE, false},
    {"allgatherv", RONDO_ANALYSE_ALL_GATHER, true},
    {"allgather", RONDO_ANALYSE_ALL_GATHER, false},
    {"broadcastoop", RONDO_ANALYSE_BROADCAST, true},
    {"broadcast", RONDO_ANALYSE_BROADCAST, false},
    {"bcast", RONDO_ANALYSE_BROADCAST, false},
    {"alltoall", RONDO_ANALYSE_ALL_TO_ALL, true},
    {"gather", RONDO_ANALYSE_GATHER, false},
    {"scatter", RONDO_ANALYSE_SCATTER, false},
    {"barrier", RONDO_ANALYSE_BARRIER, false},
    {"monitoredbarrier", RONDO_ANALYSE_BARRIER, false},
    {"sendrecv", RONDO_ANALYSE_SEND_RECV, false},
    {"send", RONDO_ANALYSE_SEND, true},
    {"recv", RONDO_ANALYSE_RECV, true},
    {"coalesced", RONDO_ANALYSE_COALESCED, true},
};

enum rondo_analyse_kind rondo_analyse_kind_of(const char *name, bool *uneven) {
  char word[64];
  name_squeeze(name, word, sizeof word);
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    if (strncmp(word, spellings[i].text, strlen(spellings[i].text)) == 0) {
      if (uneven) {
        *uneven = spellings[i].uneven;
      }
      return spellings[i].kind;
    }
  }
  if (uneven) {
    *uneven = true;
  }
  return RONDO_ANALYSE_OTHER;
}

// Reads a number that is no larger than a group could be; false if there is none.
static bool small_number(const char **text, int32_t *number) {
  char *end;
  long value = strtol(*text, &end, 10);
  bool read = end != *text && value >= 0 && value < INT32_MAX;
  *number = read ? (int32_t)value : -1;
  *text = end;
  return read;
}

bool rondo_analyse_peers_of(const char *name, int32_t *self, int32_t *other) {
  const char *text = strchr(name, ' ');
  if (!text || !small_number(&text, self)) {
    return false;
  }
  if (strncmp(text, "->", 2) != 0 && strncmp(text, "<-", 2) != 0) {
    return false;
  }
  text += 2;
  return small_number(&text, other);
}

enum rondo_analyse_dtype rondo_analyse_dtype_of(const char *name) {
  static const struct {
    const char *text;
    enum rondo_analyse_dtype dtype;
  } names[] = {
      {"float", RONDO_ANALYSE_FLOAT32},
      {"double", RONDO_ANALYSE_FLOAT64},
      {"half", RONDO_ANALYSE_FLOAT16},
      {"long", RONDO_ANALYSE_INT64},
      {"int", RONDO_ANALYSE_INT32},
      {"short", RONDO_ANALYSE_INT16},
      {"char", RONDO_ANALYSE_INT8},
      {"byte", RONDO_ANALYSE_UINT8},
      {"fp16", RONDO_ANALYSE_FLOAT16},
      {"bf16", RONDO_ANALYSE_BFLOAT16},
      {"fp32", RONDO_ANALYSE_FLOAT32},
      {"fp64", RONDO_ANALYSE_FLOAT64},
      {"float8_e4m3fn", RONDO_ANALYSE_FLOAT8_E4M3},
      {"float8_e4m3fnuz", RONDO_ANALYSE_FLOAT8_E4M3},
      {"float8_e5m2fnuz", RONDO_ANALYSE_FLOAT8_E5M2},
  };
  for (int i = 1; i < RONDO_ANALYSE_DTYPE_COUNT; i++) {
    if (strcasecmp(name, dtype_names[i]) == 0) {
      return (enum rondo_analyse_dtype)i;
    }
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcasecmp(name, names[i].text) == 0) {
      return names[i].dtype;
    }
  }
  return RONDO_ANALYSE_DTYPE_UNKNOWN;
}

enum rondo_analyse_dtype rondo_analyse_dtype_of_nccl(int64_t number) {
  static const uint8_t numbers[] = {
      RONDO_ANALYSE_INT8,     RONDO_ANALYSE_UINT8,       RONDO_ANALYSE_INT32,
      RONDO_ANALYSE_UINT32,   RONDO_ANALYSE_INT64,       RONDO_ANALYSE_UINT64,
      RONDO_ANALYSE_FLOAT16,  RONDO_ANALYSE_FLOAT32,     RONDO_ANALYSE_FLOAT64,
      RONDO_ANALYSE_BFLOAT16, RONDO_ANALYSE_FLOAT8_E4M3, RONDO_ANALYSE_FLOAT8_E5M2};
  return number >= 0 && number < (int64_t)sizeof numbers ? (enum rondo_analyse_dtype)numbers[number]
                                                         : RONDO_ANALYSE_DTYPE_UNKNOWN;
}

enum rondo_analyse_redop rondo_analyse_redop_of(const char *name) {
  for (int i = 1; i < RONDO_ANALYSE_REDOP_COUNT; i++) {
    if (strcasecmp(name, redop_names[i]) == 0) {
      return (enum rondo_analyse_redop)i;
    }
  }
  return RONDO_ANALYSE_REDOP_UNKNOWN;
}

enum rondo_analyse_redop rondo_analyse_redop_of_nccl(int64_t number) {
  return number >= 0 && number < RONDO_ANALYSE_REDOP_COUNT - 1
             ? (enum rondo_analyse_redop)(number + 1)
             : RONDO_ANALYSE_REDOP_UNKNOWN;
}

uint64_t rondo_analyse_shape_elements(const char *text, size_t bytes) {
  uint64_t total = 0, product = 1;
  int depth = 0;
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] == '[') {
      depth++;
      product = 1;
    } else if (text[i] == ']') {
      // An empty shape is a scalar: one element. The outer bracket holds shapes, not sizes.
      total += depth == 2 ? product : 0;
      depth--;
    } else if (isdigit((unsigned char)text[i])) {
      uint64_t size = 0;
      for (; i < bytes && isdigit((unsigned char)text[i]); i++) {
        size = size * 10 + (uint64_t)(text[i] - '0');
      }
      product *= size;
      i--;
    }
  }
  return total;
}
