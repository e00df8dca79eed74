#include "adapters/nccl/algorithms.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <rondo/rondo.h>

enum { RING = 1, TREE = 2, FOREIGN = 4, ALL = RING | TREE | FOREIGN };

static const struct {
  const char *name;
  int bit;
} names[] = {{"ring", RING},
             {"tree", TREE},
             {"collnetdirect", FOREIGN},
             {"collnetchain", FOREIGN},
             {"nvls", FOREIGN},
             {"nvlstree", FOREIGN},
             {"pat", FOREIGN}};

static const struct {
  const char *name;
  int kind;
  bool has_tree; // here
} functions[] = {{"allreduce", RONDO_ALL_REDUCE, true},
                 {"allgather", RONDO_ALL_GATHER, false},
                 {"reducescatter", RONDO_REDUCE_SCATTER, false},
                 {"reduce", RONDO_REDUCE, true},
                 {"broadcast", RONDO_BROADCAST, true}};
#define FUNCTIONS (sizeof functions / sizeof *functions)

static bool word_is(const char *text, size_t length, const char *word) {
  return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

// The bit of an algorithm of NCCL; 0: it has no such algorithm.
static int name_bit(const char *text, size_t length) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (word_is(text, length, names[i].name))
      return names[i].bit;
  return 0;
}

static void foreign_add(struct rondo_nccl_algorithms *out, const char *name, size_t length) {
  size_t used = strlen(out->foreign);
  (void)snprintf(out->foreign + used, sizeof out->foreign - used, "%s%.*s", used ? ", " : "",
                 (int)length, name);
}

// Reads "ring,tree" or "^tree". Returns the algorithms that may be used; 0: it is no such list.
static int list_read(const char *at, size_t length, struct rondo_nccl_algorithms *out) {
  const char *end = at + length;
  bool excludes = *at == '^';
  int listed = 0;
  at += excludes;
  do {
    size_t name = strcspn(at, ",;");
    int bit = name_bit(at, name);
    if (!bit)
      return 0;
    if (bit == FOREIGN && !excludes)
      foreign_add(out, at, name);
    listed |= bit;
    at += name;
  } while (at < end && *at++ == ',');
  // Of an excluded one of several that mean nothing here, the others remain.
  return excludes ? (ALL & ~(listed & (RING | TREE))) : listed;
}

static void forced_write(const int allowed[FUNCTIONS], struct rondo_nccl_algorithms *out) {
  size_t used = 0;
  for (size_t i = 0; i < FUNCTIONS; i++) {
    int here = allowed[i] & (RING | TREE);
    if (here != RING && (here != TREE || !functions[i].has_tree))
      continue;
    used +=
        (size_t)snprintf(out->forced + used, sizeof out->forced - used, "%s%s=%s", used ? "," : "",
                         rondo_kind_name(functions[i].kind), here == RING ? "ring" : "double-tree");
  }
}

const char *rondo_nccl_algorithms_read(const char *value, struct rondo_nccl_algorithms *out) {
  int allowed[FUNCTIONS] = {0};
  memset(out, 0, sizeof *out);
  for (const char *at = value; *at;) {
    size_t length = strcspn(at, ";"), name = strcspn(at, ":;");
    bool is_of_all = name == length;
    const char *list = is_of_all ? at : at + name + 1;
    int may_use = list_read(list, (size_t)(at + length - list), out);
    bool is_known = is_of_all;
    for (size_t i = 0; i < FUNCTIONS; i++)
      if (is_of_all || word_is(at, name, functions[i].name)) {
        allowed[i] = may_use;
        is_known = true;
      }
    if (!may_use || !is_known)
      return "it takes ring, tree and other algorithms of NCCL, such as \"ring;allreduce:tree\"";
    at += length + (at[length] == ';');
  }
  forced_write(allowed, out);
  return NULL;
}
