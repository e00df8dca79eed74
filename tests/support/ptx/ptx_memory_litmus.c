#include "tests/support/ptx/ptx_memory_litmus.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/explore/random.h"

struct op_name {
  const char *text;
  enum litmus_kind kind;
  enum ptx_order order; // if none is written
};

static const struct op_name names[] = {
    {"st", LITMUS_ST, PTX_WEAK},      {"ld", LITMUS_LD, PTX_WEAK},
    {"wait", LITMUS_WAIT, PTX_WEAK},  {"add", LITMUS_ADD, PTX_RELAXED},
    {"red", LITMUS_ADD, PTX_RELAXED}, {"exch", LITMUS_EXCH, PTX_RELAXED},
    {"cas", LITMUS_CAS, PTX_RELAXED}, {"fence", LITMUS_FENCE, PTX_ACQ_REL},
    {"bar", LITMUS_BAR, PTX_RELAXED},
};

static bool op_parse_suffix(const char *text, struct litmus_op *op) {
  static const char *const orders[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc"};
  static const char *const scopes[] = {"cta", "gpu", "sys"};
  for (uint32_t i = 0; i < sizeof orders / sizeof *orders; i++)
    if (!strcmp(text, orders[i])) {
      op->order = (enum ptx_order)i;
      return true;
    }
  for (uint32_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
    if (!strcmp(text, scopes[i])) {
      op->scope = (enum ptx_scope)i;
      op->has_scope = true;
      return true;
    }
  return false;
}

// st.release.cta and the like.
static bool op_parse_name(char *text, struct litmus_op *op) {
  char *rest = NULL;
  const char *part = strtok_r(text, ".", &rest);
  const struct op_name *name = NULL;
  for (uint32_t i = 0; part && i < sizeof names / sizeof *names; i++)
    if (!strcmp(part, names[i].text))
      name = &names[i];
  if (!name)
    return false;
  op->kind = name->kind;
  op->order = name->order;
  op->is_reduction = !strcmp(part, "red");
  while ((part = strtok_r(NULL, ".", &rest)))
    if (!op_parse_suffix(part, op))
      return false;
  return true;
}

// x, x:8 or x:2+4.
static bool op_parse_location(const char *text, struct litmus_op *op) {
  uint32_t offset = 0;
  if (!text || text[0] < 'u' || text[0] > 'z')
    return false;
  op->bytes = 4;
  char *end = NULL;
  if (text[1] == ':')
    op->bytes = (uint32_t)strtoul(text + 2, &end, 10);
  if (end && *end == '+')
    offset = (uint32_t)strtoul(end + 1, NULL, 10);
  op->at = (uint32_t)(text[0] - 'u') * 64 + offset;
  return true;
}

static bool op_parse_value(const char *text, struct litmus_op *op) {
  if (!text)
    return false;
  if (text[0] >= 'a' && text[0] <= 'h')
    op->from = text[0];
  op->value = (uint32_t)strtoul(text, NULL, 10);
  return op->from || isdigit((unsigned char)text[0]);
}

static bool op_parse(char *text, struct litmus_op *op) {
  char *rest = NULL;
  *op = (struct litmus_op){.bytes = 4};
  char *word = strtok_r(text, " ", &rest);
  if (!word)
    return false;
  if (word[0] && word[1] == '=') {
    op->to = word[0];
    word += 2;
  }
  if (!op_parse_name(word, op))
    return false;
  if (op->kind == LITMUS_FENCE || op->kind == LITMUS_BAR)
    return true;
  if (!op_parse_location(strtok_r(NULL, " ", &rest), op))
    return false;
  if (op->kind == LITMUS_LD || op->kind == LITMUS_WAIT)
    return true;
  if (op->kind == LITMUS_CAS) {
    const char *compare = strtok_r(NULL, " ", &rest);
    op->compare = compare ? (uint32_t)strtoul(compare, NULL, 10) : 0;
  }
  return op_parse_value(strtok_r(NULL, " ", &rest), op);
}

// "0.1.0.3:" before the operations. Returns where they begin.
static char *place_parse(char *text, struct litmus_place *place) {
  uint32_t *const parts[] = {&place->device, &place->block, &place->warp, &place->lane};
  char *at = text;
  for (uint32_t i = 0; i < 4; i++) {
    *parts[i] = (uint32_t)strtoul(at, &at, 10);
    if (*at++ != (i < 3 ? '.' : ':'))
      return text;
  }
  return at;
}

static bool thread_parse(char *text, struct litmus_program *program) {
  uint32_t t = program->thread_count++;
  char *ops = place_parse(text, &program->places[t]);
  program->has_places = program->has_places || ops != text;
  char *rest = NULL;
  for (char *op = strtok_r(ops, ";", &rest); op; op = strtok_r(NULL, ";", &rest))
    if (program->op_counts[t] == LITMUS_OPS ||
        !op_parse(op, &program->ops[t][program->op_counts[t]++]))
      return false;
  return true;
}

bool litmus_parse(const char *text, struct litmus_program *program, char *why, size_t why_bytes) {
  char copy[512], *rest = NULL;
  memset(program, 0, sizeof *program);
  snprintf(copy, sizeof copy, "%s", text);
  for (char *thread = strtok_r(copy, "|", &rest); thread; thread = strtok_r(NULL, "|", &rest))
    if (program->thread_count == LITMUS_THREADS || !thread_parse(thread, program)) {
      snprintf(why, why_bytes, "thread %u of '%s' is not understood", program->thread_count, text);
      return false;
    }
  return true;
}

bool litmus_scope_suffices(enum litmus_placement placement, enum ptx_scope scope) {
  static const enum ptx_scope least[] = {PTX_CTA, PTX_CTA, PTX_GPU, PTX_SYS, PTX_SYS};
  return scope >= least[placement];
}

static struct litmus_place place_of(const struct litmus_program *program,
                                    enum litmus_placement placement, uint32_t thread) {
  if (program->has_places)
    return program->places[thread];
  struct litmus_place place = {0};
  if (placement == LITMUS_LANES)
    place.lane = thread;
  else if (placement == LITMUS_WARPS)
    place.warp = thread;
  else if (placement == LITMUS_DEVICES)
    place.device = thread;
  else
    place.block = thread;
  if (placement == LITMUS_WITH_CPU && thread == 0)
    place.device = PTX_CPU;
  return place;
}

struct thread {
  uint32_t agent, lane;
  uint32_t next;       // operation
  uint32_t tickets[8]; // by register, of loads whose value has not been used
  bool has_ticket[8];
};

struct execution {
  const struct litmus_program *program;
  const struct litmus_run *run;
  struct litmus_result *result;
  struct ptx_memory *memory;
  struct thread threads[LITMUS_THREADS];
  const struct litmus_op *updating;
  uint32_t updating_with, updated_from;
};

static _Alignas(64) uint8_t words[6 * 64];

static uint32_t execution_register(struct execution *e, struct thread *t, char name) {
  uint32_t r = (uint32_t)(name - 'a');
  if (t->has_ticket[r]) {
    uint64_t value[2] = {0};
    ptx_memory_resolve(e->memory, t->tickets[r], value);
    e->result->registers[r] = (uint32_t)value[0];
    t->has_ticket[r] = false;
  }
  return e->result->registers[r];
}

static bool litmus_update(void *arg, void *value) {
  struct execution *e = arg;
  uint32_t now = 0;
  memcpy(&now, value, e->updating->bytes < 4 ? e->updating->bytes : 4);
  e->updated_from = now;
  if (e->updating->kind == LITMUS_CAS && now != e->updating->compare)
    return false;
  now = e->updating->kind == LITMUS_ADD ? now + e->updating_with : e->updating_with;
  memcpy(value, &now, e->updating->bytes < 4 ? e->updating->bytes : 4);
  return true;
}

static void thread_load(struct execution *e, struct thread *t, const struct litmus_op *op,
                        const struct ptx_access *access, const struct ptx_where *where) {
  uint64_t value[2] = {0};
  if (op->kind == LITMUS_LD && op->to) {
    execution_register(e, t, op->to);
    t->tickets[op->to - 'a'] = ptx_memory_load_later(e->memory, t->agent, t->lane, access, where);
    t->has_ticket[op->to - 'a'] = true;
  } else {
    ptx_memory_load(e->memory, t->agent, t->lane, access, value, where);
  }
  if (op->kind == LITMUS_WAIT && !value[0])
    t->next--;
}

static void thread_access(struct execution *e, struct thread *t, const struct litmus_op *op,
                          const struct ptx_where *where) {
  struct ptx_access access = {.address = (uint64_t)(uintptr_t)(words + op->at),
                              .bytes = op->bytes,
                              .order = op->order,
                              .scope = op->has_scope ? op->scope : e->run->scope,
                              .is_reduction = op->is_reduction};
  uint64_t value[2] = {op->value, op->value};
  if (op->from)
    value[0] = execution_register(e, t, op->from);
  if (op->kind == LITMUS_LD || op->kind == LITMUS_WAIT) {
    thread_load(e, t, op, &access, where);
  } else if (op->kind == LITMUS_ST) {
    ptx_memory_store(e->memory, t->agent, t->lane, &access, value, where);
  } else {
    e->updating = op;
    e->updating_with = (uint32_t)value[0];
    struct ptx_update update = {litmus_update, e};
    ptx_memory_update(e->memory, t->agent, t->lane, &access, &update, where);
    if (op->to)
      e->result->registers[op->to - 'a'] = e->updated_from;
  }
}

static const struct litmus_op *execution_next(const struct execution *e, uint32_t thread) {
  const struct thread *t = &e->threads[thread];
  return t->next < e->program->op_counts[thread] ? &e->program->ops[thread][t->next] : NULL;
}

static bool is_same_block(const struct execution *e, uint32_t one, uint32_t two) {
  struct litmus_place a = place_of(e->program, e->run->placement, one);
  struct litmus_place b = place_of(e->program, e->run->placement, two);
  return a.device == b.device && a.block == b.block;
}

// Lets the threads of a block go on if all of them that have not ended are at a barrier.
static bool execution_try_meet(struct execution *e, uint32_t thread) {
  struct ptx_lanes lanes[LITMUS_THREADS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < e->program->thread_count; i++) {
    const struct litmus_op *op = execution_next(e, i);
    if (op && is_same_block(e, thread, i) && op->kind != LITMUS_BAR)
      return false;
  }
  for (uint32_t i = 0; i < e->program->thread_count; i++) {
    struct thread *t = &e->threads[i];
    if (!execution_next(e, i) || !is_same_block(e, thread, i))
      continue;
    uint32_t at = 0;
    while (at < count && lanes[at].agent != t->agent)
      at++;
    if (at == count)
      lanes[count++] = (struct ptx_lanes){t->agent, 0};
    lanes[at].lanes |= 1u << t->lane;
    t->next++;
  }
  ptx_memory_meet(e->memory, lanes, count);
  return true;
}

// Executes one operation of a thread that the seed picks. Returns false when none can go on.
static bool execution_step(struct execution *e, struct random *random) {
  uint32_t ready[LITMUS_THREADS], count = 0;
  for (uint32_t i = 0; i < e->program->thread_count; i++) {
    const struct litmus_op *op = execution_next(e, i);
    if (op && op->kind == LITMUS_BAR && execution_try_meet(e, i))
      return true;
    if (op && op->kind != LITMUS_BAR)
      ready[count++] = i;
  }
  if (!count)
    return false;
  uint32_t thread = ready[random_below(random, count)];
  const struct litmus_op *op = execution_next(e, thread);
  struct thread *t = &e->threads[thread];
  struct ptx_where where = {.kernel = "litmus", .line = t->next + 1, .block = thread};
  where.text_line = thread * LITMUS_OPS + where.line;
  t->next++;
  if (op->kind == LITMUS_FENCE)
    ptx_memory_fence(e->memory, t->agent, t->lane, op->order,
                     op->has_scope ? op->scope : e->run->scope);
  else
    thread_access(e, t, op, &where);
  return true;
}

static void execution_place(struct execution *e) {
  struct litmus_place seen[LITMUS_THREADS];
  for (uint32_t i = 0; i < e->program->thread_count; i++) {
    struct litmus_place p = place_of(e->program, e->run->placement, i);
    struct thread *t = &e->threads[i];
    uint32_t same = 0;
    while (same < i && (seen[same].device != p.device || seen[same].block != p.block ||
                        seen[same].warp != p.warp))
      same++;
    seen[i] = p;
    t->lane = p.lane;
    t->agent = same < i
                   ? e->threads[same].agent
                   : ptx_memory_agent(e->memory, p.device, p.block, p.device == PTX_CPU ? 1 : 32);
  }
}

static void execution_accuse(void *arg, const struct ptx_accusation *accusation) {
  struct litmus_result *result = arg;
  result->accusations++;
  ptx_accusation_text(accusation, result->accusation, sizeof result->accusation);
}

void litmus_execute(const struct litmus_program *program, const struct litmus_run *run,
                    struct litmus_result *result) {
  struct ptx_memory_options options = run->options;
  memset(result, 0, sizeof *result);
  memset(words, 0, sizeof words);
  options.accuse = execution_accuse;
  options.arg = result;
  struct execution e = {.program = program, .run = run, .result = result};
  struct random random = {random_mix(options.seed)};
  e.memory = ptx_memory_create(&options);
  execution_place(&e);
  while (execution_step(&e, &random))
    continue;
  for (uint32_t i = 0; i < program->thread_count; i++)
    for (uint32_t r = 0; r < 8; r++)
      execution_register(&e, &e.threads[i], (char)('a' + r));
  ptx_memory_destroy(e.memory);
  for (uint32_t i = 0; i < 6; i++)
    memcpy(&result->words[i], words + i * 64, 4);
}

void litmus_outcome(const struct litmus_result *result, const char *observed, char *outcome) {
  for (; *observed; observed++, outcome++) {
    uint32_t value =
        *observed >= 'u' ? result->words[*observed - 'u'] : result->registers[*observed - 'a'];
    *outcome = value < 10 ? (char)('0' + value) : '?';
  }
  *outcome = 0;
}
