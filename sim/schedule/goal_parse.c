// Reads the text form of GOAL programs, as txt2bin of LogGOPSim does:
//
//   num_ranks 2
//   rank 0 {
//   l1: send 8b to 1 tag 0
//   l2: calc 1000
//   l2 requires l1
//   }
//
// A statement ends with its line, a semicolon or the closing bracket. /* */ and // are comments.
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/schedule/goal_state.h"

#define NONE RONDO_SCHEDULE_GOAL_NONE
#define MOST_RANKS (1u << 24)
#define MOST_OPS (UINT32_MAX / 2)     // messages and ops are numbered together
#define MOST_SIZE (UINT64_C(1) << 50) // bytes, or nanoseconds
#define MOST_RESOURCES 256u           // CPUs, or NICs, of a rank
#define MOST_LANES (UINT64_C(1) << 30)

enum token_kind { TOKEN_END, TOKEN_STOP, TOKEN_NUMBER, TOKEN_ANY, TOKEN_WORD, TOKEN_OTHER };

struct token {
  uint8_t kind; // enum token_kind; STOP: the end of a statement; ANY: -1
  const char *text;
  size_t length;
  uint64_t number;
};

// Labels of a rank: a hash table. Entries of earlier ranks count as free.
struct label {
  const char *text;
  size_t length;
  uint32_t op, rank; // rank + 1
};

// "`op` waits for `on`."
struct dependency {
  uint32_t op, on;
  bool is_start;
};

struct reader {
  const char *at, *end, *name;
  uint32_t line, rank; // rank: the one that is read + 1; 0: none so far
  bool in_rank;
  struct token token;
  struct rondo_schedule_goal *g;
  struct label *labels;
  size_t label_count, label_capacity;
  struct dependency *dependencies;
  size_t dependency_count, dependency_capacity;
  uint32_t *first_op; // by rank
  struct rondo_sim_error *error;
};

// --------------------------------------------------------------------- tokens ---

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

__attribute__((format(printf, 2, 3))) static bool refuse(struct reader *r, const char *format,
                                                         ...) {
  char why[256];
  va_list list;
  va_start(list, format);
  (void)vsnprintf(why, sizeof why, format, list);
  va_end(list);
  return rondo_sim_refuse(r->error, "%.200s:%" PRIu32 ": %s", r->name, r->line, why);
}

// Refuses the token in place of what was expected.
static bool expected(struct reader *r, const char *what) {
  const struct token *t = &r->token;
  int length = t->length > 40 ? 40 : (int)t->length;
  if (t->kind == TOKEN_END) {
    return refuse(r, "%s expected, and the file ends", what);
  }
  if (t->kind == TOKEN_STOP) {
    return refuse(r, "%s expected, and the statement ends", what);
  }
  if (t->kind == TOKEN_OTHER && (*t->text < ' ' || *t->text > '~')) {
    return refuse(r, "%s expected in place of the character %u", what, (unsigned char)*t->text);
  }
  return refuse(r, "%s expected in place of \"%.*s\"", what, length, t->text);
}

// Skips blanks and comments. Returns false at a comment that has no end.
static bool blanks_skip(struct reader *r) {
  while (r->at < r->end) {
    size_t left = (size_t)(r->end - r->at);
    if (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') {
      r->at++;
    } else if (left > 1 && r->at[0] == '/' && r->at[1] == '/') {
      const char *feed = memchr(r->at, '\n', left);
      r->at = feed ? feed : r->end;
    } else if (left > 1 && r->at[0] == '/' && r->at[1] == '*') {
      const char *close = memmem(r->at + 2, left - 2, "*/", 2);
      if (!close) {
        return refuse(r, "the comment has no end");
      }
      for (; r->at < close + 2; r->at++) {
        r->line += *r->at == '\n';
      }
    } else {
      break;
    }
  }
  return true;
}

static bool number_next(struct reader *r) {
  struct token *t = &r->token;
  t->kind = TOKEN_NUMBER;
  t->number = 0;
  for (; r->at < r->end && is_digit(*r->at); r->at++) {
    t->number = t->number * 10 + (uint64_t)(*r->at - '0');
    if (t->number > MOST_SIZE) {
      return refuse(r, "a number is greater than 2^50");
    }
  }
  t->length = (size_t)(r->at - t->text);
  return true;
}

// Reads the next token. A line feed is counted when the token after it is read, so that errors name
// the line of the statement.
static bool next(struct reader *r) {
  struct token *t = &r->token;
  r->line += t->kind == TOKEN_STOP && *t->text == '\n';
  if (!blanks_skip(r)) {
    return false;
  }
  *t = (struct token){.kind = TOKEN_END, .text = r->at, .length = 1};
  if (r->at == r->end) {
    return true;
  }
  if (is_digit(*r->at)) {
    return number_next(r);
  }
  if (is_letter(*r->at)) {
    while (r->at < r->end && (is_letter(*r->at) || is_digit(*r->at) || *r->at == '_')) {
      r->at++;
    }
    t->kind = TOKEN_WORD;
  } else if (*r->at == '-' && r->end - r->at > 1 && r->at[1] == '1') {
    t->kind = TOKEN_ANY;
    r->at += 2;
  } else {
    t->kind = *r->at == '\n' || *r->at == ';' ? TOKEN_STOP : TOKEN_OTHER;
    r->at++;
  }
  t->length = (size_t)(r->at - t->text);
  return true;
}

static bool is_word(const struct reader *r, const char *word) {
  const struct token *t = &r->token;
  return t->kind == TOKEN_WORD && t->length == strlen(word) &&
         memcmp(t->text, word, t->length) == 0;
}

static bool is_character(const struct reader *r, char c) {
  return r->token.kind == TOKEN_OTHER && *r->token.text == c;
}

static bool word_take(struct reader *r, const char *word) {
  char what[32];
  (void)snprintf(what, sizeof what, "\"%s\"", word);
  return is_word(r, word) ? next(r) : expected(r, what);
}

static bool number_take(struct reader *r, const char *what, uint64_t most, uint64_t *number) {
  if (r->token.kind != TOKEN_NUMBER) {
    return expected(r, what);
  }
  *number = r->token.number;
  if (*number > most) {
    return refuse(r, "%s is %" PRIu64 ", above %" PRIu64, what, *number, most);
  }
  return next(r);
}

// --------------------------------------------------------------------- labels ---

// The place of a label in the table: its entry, or a free one.
static struct label *label_place(const struct reader *r, const char *text, size_t length) {
  uint64_t hash = UINT64_C(14695981039346656037); // FNV-1a
  for (size_t i = 0; i < length; i++) {
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
  }
  for (size_t at = hash ^ hash >> 32;; at++) {
    struct label *l = &r->labels[at & (r->label_capacity - 1)];
    if (l->rank != r->rank || (l->length == length && memcmp(l->text, text, length) == 0)) {
      return l;
    }
  }
}

static void labels_grow(struct reader *r) {
  struct label *old = r->labels;
  size_t count = r->label_capacity;
  r->label_capacity = count ? 2 * count : 64;
  r->labels = rondo_sim_calloc(r->label_capacity, sizeof *r->labels);
  for (size_t i = 0; i < count; i++) {
    if (old[i].rank == r->rank) {
      *label_place(r, old[i].text, old[i].length) = old[i];
    }
  }
  free(old);
}

static bool label_add(struct reader *r, const struct token *name) {
  if (2 * (r->label_count + 1) > r->label_capacity) {
    labels_grow(r);
  }
  struct label *l = label_place(r, name->text, name->length);
  if (l->rank == r->rank) {
    return refuse(r, "the rank has another label \"%.*s\"",
                  name->length > 64 ? 64 : (int)name->length, name->text);
  }
  *l = (struct label){name->text, name->length, r->g->op_count, r->rank};
  r->label_count++;
  return true;
}

static bool label_find(struct reader *r, const struct token *name, uint32_t *op) {
  const struct label *l = r->label_count ? label_place(r, name->text, name->length) : NULL;
  if (!l || l->rank != r->rank) {
    return refuse(r, "the rank has no label \"%.*s\" so far",
                  name->length > 64 ? 64 : (int)name->length, name->text);
  }
  *op = l->op;
  return true;
}

// ----------------------------------------------------------------- statements ---

static bool statement_end(struct reader *r) {
  if (r->token.kind == TOKEN_STOP) {
    return next(r);
  }
  return is_character(r, '}') || expected(r, "the end of the statement");
}

static bool rank_take(struct reader *r, uint32_t *rank) {
  uint64_t number = 0;
  if (r->token.kind == TOKEN_NUMBER && r->token.number >= r->g->rank_count) {
    return refuse(r, "rank %" PRIu64 " is none of %" PRIu32 " ranks", r->token.number,
                  r->g->rank_count);
  }
  bool ok = number_take(r, "a rank", MOST_RANKS, &number);
  *rank = (uint32_t)number;
  return ok;
}

// The peer of a message; that of a receive may be -1, which matches all.
static bool peer_take(struct reader *r, struct rondo_schedule_goal_op *op) {
  bool is_receive = op->kind == RONDO_SCHEDULE_GOAL_RECV;
  if (!word_take(r, "b") || !word_take(r, is_receive ? "from" : "to")) {
    return false;
  }
  if (is_receive && r->token.kind == TOKEN_ANY) {
    op->peer = RONDO_SCHEDULE_GOAL_ANY;
    return next(r);
  }
  return rank_take(r, &op->peer);
}

static bool tag_take(struct reader *r, struct rondo_schedule_goal_op *op) {
  uint64_t tag = 0;
  if (op->kind == RONDO_SCHEDULE_GOAL_RECV && r->token.kind == TOKEN_ANY) {
    op->tag = RONDO_SCHEDULE_GOAL_ANY;
    return next(r);
  }
  bool ok = number_take(r, "a tag", RONDO_SCHEDULE_GOAL_ANY - 1, &tag);
  op->tag = (uint32_t)tag;
  return ok;
}

// Reads "tag", "cpu" and "nic", each once at most.
static bool attributes_take(struct reader *r, struct rondo_schedule_goal_op *op) {
  uint64_t cpu = 0, nic = 0;
  bool is_calc = op->kind == RONDO_SCHEDULE_GOAL_CALC, ok = true;
  bool has_tag = is_calc, has_cpu = false, has_nic = is_calc;
  while (ok && r->token.kind == TOKEN_WORD) {
    if (is_word(r, "tag") && !has_tag) {
      has_tag = true;
      ok = next(r) && tag_take(r, op);
    } else if (is_word(r, "cpu") && !has_cpu) {
      has_cpu = true;
      ok = next(r) && number_take(r, "a CPU", MOST_RESOURCES - 1, &cpu);
    } else if (is_word(r, "nic") && !has_nic) {
      has_nic = true;
      ok = next(r) && number_take(r, "a NIC", MOST_RESOURCES - 1, &nic);
    } else {
      return expected(r, "the end of the statement");
    }
  }
  op->cpu = (uint8_t)cpu;
  op->nic = (uint8_t)nic;
  r->g->cpus = r->g->cpus > cpu ? r->g->cpus : (uint32_t)cpu + 1;
  r->g->nics = r->g->nics > nic ? r->g->nics : (uint32_t)nic + 1;
  return ok && statement_end(r);
}

static bool op_kind(const struct reader *r, uint8_t *kind) {
  static const char *const names[] = {"send", "recv", "calc"};
  for (*kind = 0; *kind < RONDO_SCHEDULE_GOAL_KINDS; ++*kind) {
    if (is_word(r, names[*kind])) {
      return true;
    }
  }
  return false;
}

static bool op_read(struct reader *r) {
  struct rondo_schedule_goal *g = r->g;
  struct rondo_schedule_goal_op op = {.line = r->line};
  if (!op_kind(r, &op.kind)) {
    return expected(r, "send, recv or calc");
  }
  bool is_calc = op.kind == RONDO_SCHEDULE_GOAL_CALC;
  if (!next(r) || !number_take(r, is_calc ? "a time" : "a size", MOST_SIZE, &op.size) ||
      (!is_calc && !peer_take(r, &op)) || !attributes_take(r, &op)) {
    return false;
  }
  if (g->op_count == MOST_OPS) {
    return refuse(r, "there are more than %u operations", MOST_OPS);
  }
  RONDO_SIM_GROW(g->ops, g->op_count, g->op_capacity, 64);
  g->ops[g->op_count++] = op;
  return true;
}

static bool dependency_read(struct reader *r, const struct token *name) {
  struct dependency d = {.is_start = is_word(r, "irequires")};
  if (!next(r)) {
    return false;
  }
  const struct token on = r->token;
  if (on.kind != TOKEN_WORD) {
    return expected(r, "a label");
  }
  if (!label_find(r, name, &d.op) || !label_find(r, &on, &d.on) || !next(r) || !statement_end(r)) {
    return false;
  }
  RONDO_SIM_GROW(r->dependencies, r->dependency_count, r->dependency_capacity, 64);
  r->dependencies[r->dependency_count++] = d;
  return true;
}

// A statement inside the brackets of a rank.
static bool statement_read(struct reader *r) {
  const struct token name = r->token;
  uint8_t kind;
  if (op_kind(r, &kind)) {
    return op_read(r);
  }
  if (name.kind != TOKEN_WORD) {
    return expected(r, "a statement or \"}\"");
  }
  if (!next(r)) {
    return false;
  }
  if (is_word(r, "requires") || is_word(r, "irequires")) {
    return dependency_read(r, &name);
  }
  if (!is_character(r, ':')) {
    return expected(r, "\":\", requires or irequires");
  }
  return label_add(r, &name) && next(r) && op_read(r);
}

// ------------------------------------------------------------------------ file ---

static bool rank_begin(struct reader *r) {
  uint32_t rank = 0;
  if (!word_take(r, "rank") || !rank_take(r, &rank)) {
    return false;
  }
  if (rank + 1 <= r->rank) {
    return refuse(r, "rank %" PRIu32 " comes after rank %" PRIu32, rank, r->rank - 1);
  }
  while (r->token.kind == TOKEN_STOP) {
    if (!next(r)) {
      return false;
    }
  }
  if (!is_character(r, '{')) {
    return expected(r, "\"{\"");
  }
  for (; r->rank <= rank; r->rank++) { // those that are left out have no operations
    r->first_op[r->rank] = r->g->op_count;
  }
  r->label_count = 0;
  r->in_rank = true;
  return next(r);
}

static bool file_read(struct reader *r) {
  uint64_t ranks = 0;
  bool ok = next(r);
  while (ok && r->token.kind == TOKEN_STOP) {
    ok = next(r);
  }
  if (!ok || !word_take(r, "num_ranks") || !number_take(r, "num_ranks", MOST_RANKS, &ranks)) {
    return false;
  }
  if (ranks == 0) {
    return refuse(r, "num_ranks is 0");
  }
  r->g->rank_count = (uint32_t)ranks;
  r->first_op = rondo_sim_alloc((ranks + 1) * sizeof *r->first_op);
  while (ok && r->token.kind != TOKEN_END) {
    if (r->token.kind == TOKEN_STOP) {
      ok = next(r);
    } else if (!r->in_rank) {
      ok = rank_begin(r);
    } else if (is_character(r, '}')) {
      r->in_rank = false;
      ok = next(r);
    } else {
      ok = statement_read(r);
    }
  }
  return ok && (!r->in_rank || expected(r, "\"}\""));
}

// Puts the edges of each op in a row: those of its start first, else in the order of the file.
static void edges_make(struct reader *r) {
  struct rondo_schedule_goal *g = r->g;
  struct rondo_schedule_goal_op *ops;
  uint32_t first = 0;
  RONDO_SIM_GROW(g->ops, g->op_count, g->op_capacity, 64);
  ops = g->ops;
  ops[g->op_count] = (struct rondo_schedule_goal_op){0};
  g->edges = rondo_sim_alloc((r->dependency_count + 1) * sizeof *g->edges);
  uint32_t *counts = rondo_sim_calloc(g->op_count + (size_t)1, sizeof *counts);
  for (size_t i = 0; i < r->dependency_count; i++) {
    const struct dependency *d = &r->dependencies[i];
    ops[d->op].waits++;
    ops[d->on].start_edges += d->is_start;
    counts[d->on]++;
  }
  for (uint32_t i = 0; i <= g->op_count; i++) {
    ops[i].first_edge = first;
    first += counts[i];
    counts[i] = ops[i].first_edge;
  }
  for (int starts = 1; starts >= 0; starts--) {
    for (size_t i = 0; i < r->dependency_count; i++) {
      const struct dependency *d = &r->dependencies[i];
      if (d->is_start == (starts == 1)) {
        g->edges[counts[d->on]++] = d->op;
      }
    }
  }
  free(counts);
}

static bool program_make(struct reader *r) {
  struct rondo_schedule_goal *g = r->g;
  if ((uint64_t)g->rank_count * g->cpus * (1 + UINT64_C(2) * g->nics) > MOST_LANES ||
      r->dependency_count > MOST_OPS) {
    return refuse(r,
                  "%" PRIu32 " ranks with %" PRIu32 " CPUs and %" PRIu32
                  " NICs each, or %zu dependencies, are too many",
                  g->rank_count, g->cpus, g->nics, r->dependency_count);
  }
  for (; r->rank <= g->rank_count; r->rank++) {
    r->first_op[r->rank] = g->op_count;
  }
  g->first_op = r->first_op;
  r->first_op = NULL;
  edges_make(r);
  return true;
}

struct rondo_schedule_goal *rondo_schedule_goal_parse(const char *text, size_t bytes,
                                                      const char *name,
                                                      struct rondo_sim_error *error) {
  struct reader r = {.at = text, .end = text + bytes, .name = name, .line = 1, .error = error};
  r.g = rondo_sim_calloc(1, sizeof *r.g);
  r.g->cpus = r.g->nics = 1;
  if (!file_read(&r) || !program_make(&r)) {
    rondo_schedule_goal_destroy(r.g);
    r.g = NULL;
  }
  free(r.labels);
  free(r.dependencies);
  free(r.first_op);
  return r.g;
}

struct rondo_schedule_goal *rondo_schedule_goal_read(const char *path,
                                                     struct rondo_sim_error *error) {
  struct rondo_sim_text text = {0};
  char part[1 << 16];
  size_t bytes;
  FILE *file = fopen(path, "r");
  while (file && (bytes = fread(part, 1, sizeof part, file)) > 0) {
    rondo_sim_text_add_bytes(&text, part, bytes);
  }
  struct rondo_schedule_goal *g = NULL;
  if (!file || ferror(file)) {
    (void)rondo_sim_refuse(error, "%.200s: %s", path, strerror(errno));
  } else {
    g = rondo_schedule_goal_parse(rondo_sim_text_str(&text), text.size_bytes, path, error);
  }
  if (file) {
    (void)fclose(file);
  }
  rondo_sim_text_fini(&text);
  return g;
}
