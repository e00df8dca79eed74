// The parser of PTX text: modules, entries, declarations, labels and the operands of instructions.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_build.h"

// ---------------------------------------------------------------------- tokens --

// Blanks and comments.
static void text_skip(struct ptx_build *b) {
  for (;;) {
    if (b->at[0] == '/' && b->at[1] == '/') {
      b->at += strcspn(b->at, "\n");
    } else if (b->at[0] == '/' && b->at[1] == '*') {
      const char *end = strstr(b->at + 2, "*/");
      for (end = end ? end + 2 : b->at + strlen(b->at); b->at < end; b->at++)
        b->line += *b->at == '\n';
    } else if (isspace((unsigned char)*b->at)) {
      b->line += *b->at++ == '\n';
    } else {
      return;
    }
  }
}

static bool is_word(const char *at) {
  return isalnum((unsigned char)*at) || (*at && strchr("_.$%", *at)) ||
         (at[0] == ':' && at[1] == ':') || (at[0] == ':' && at[-1] == ':');
}

// Takes a word: a name, a directive, an instruction or a number. Empty if there is none.
static bool text_word(struct ptx_build *b, char word[PTX_NAME_BYTES]) {
  size_t length = 0;
  text_skip(b);
  while (is_word(b->at + length))
    length++;
  if (length >= PTX_NAME_BYTES)
    return ptx_build_refuse(b, "a name of %zu characters", length);
  memcpy(word, b->at, length);
  word[length] = '\0';
  b->at += length;
  return true;
}

static bool text_takes(struct ptx_build *b, char c) {
  text_skip(b);
  if (*b->at != c)
    return false;
  b->at++;
  return true;
}

static bool text_expects(struct ptx_build *b, char c) {
  return text_takes(b, c) || ptx_build_refuse(b, "'%c' is missing before \"%.20s\"", c, b->at);
}

static bool text_number(struct ptx_build *b, uint64_t *value) {
  char word[PTX_NAME_BYTES], *end;
  const bool is_negative = text_takes(b, '-');
  if (!text_word(b, word))
    return false;
  if (!isdigit((unsigned char)word[0]))
    return ptx_build_refuse(b, "\"%s\" is no number", word);
  *value = strtoull(word, &end, 0);
  if (*end == 'U' || *end == 'u')
    end++;
  if (*end)
    return ptx_build_refuse(b, "\"%s\" is no number", word);
  *value = is_negative ? 0 - *value : *value;
  return true;
}

static bool text_skip_past(struct ptx_build *b, char c) {
  for (; *b->at && *b->at != c; b->at++)
    b->line += *b->at == '\n';
  return *b->at ? (b->at++, true) : ptx_build_refuse(b, "the text ends too early");
}

// ---------------------------------------------------------------- declarations --

// Bytes of a type such as ".b32"; 0: unknown. A predicate has 1, as .b8 has.
static uint32_t type_bytes(const char *type) {
  const char *digits = type + strcspn(type, "0123456789");
  if (strcmp(type, ".pred") == 0)
    return 1;
  return (uint32_t)strtoul(digits, NULL, 10) / 8;
}

struct variable {
  char name[PTX_NAME_BYTES];
  uint64_t bytes, align;
  bool is_open; // name[]
};

// The rest of a declaration after its space: .align 8 .b8 name[64]
static bool variable_parse(struct ptx_build *b, struct variable *v) {
  char word[PTX_NAME_BYTES];
  uint64_t count = 1;
  *v = (struct variable){.align = 0};
  for (;;) {
    if (!text_word(b, word))
      return false;
    if (strcmp(word, ".align") != 0)
      break;
    if (!text_number(b, &v->align))
      return false;
  }
  const uint32_t bytes = type_bytes(word);
  if (!bytes || !text_word(b, v->name) || !v->name[0])
    return ptx_build_refuse(b, "\"%s\" declares nothing that the machine knows", word);
  if (text_takes(b, '[')) {
    v->is_open = text_takes(b, ']');
    if (!v->is_open && (!text_number(b, &count) || !text_expects(b, ']')))
      return false;
  }
  if (count > UINT32_MAX / 8)
    return ptx_build_refuse(b, "%s is too large", v->name);
  v->bytes = count * bytes;
  v->align = v->align ? v->align : bytes;
  return (v->align & (v->align - 1)) == 0 || ptx_build_refuse(b, "%s: bad alignment", v->name);
}

static bool shared_declare(struct ptx_build *b, bool is_extern) {
  struct variable v;
  struct ptx_kernel *k = b->kernel;
  if (!variable_parse(b, &v) || !text_expects(b, ';'))
    return false;
  if (is_extern && v.is_open) {
    snprintf(b->dynamic_name, sizeof b->dynamic_name, "%s", v.name);
    b->dynamic_align = v.align;
    return true;
  }
  if (is_extern || v.is_open || !k)
    return ptx_build_refuse(b, "%s: shared memory of this form is not supported", v.name);
  const uint64_t at = (k->shared_bytes + v.align - 1) / v.align * v.align;
  if (at + v.bytes > 232448)
    return ptx_build_refuse(b, "%s: too much shared memory", v.name);
  k->shared_bytes = (uint32_t)(at + v.bytes);
  return ptx_symbol_add(b, v.name, PTX_A_SHARED, PTX_SHARED_BASE + at) != NULL;
}

// .reg .b32 %r<25>, x;
static bool registers_declare(struct ptx_build *b) {
  char type[PTX_NAME_BYTES], name[PTX_NAME_BYTES];
  if (!text_word(b, type))
    return false;
  const bool is_predicate = strcmp(type, ".pred") == 0;
  const uint32_t bytes = type_bytes(type);
  if (!is_predicate && bytes != 2 && bytes != 4 && bytes != 8)
    return ptx_build_refuse(b, "registers of type %s are not supported", type);
  do {
    uint64_t count = 1;
    uint32_t first;
    if (!text_word(b, name) || !name[0])
      return ptx_build_refuse(b, "a register without a name");
    const bool is_family = text_takes(b, '<');
    if (is_family && (!text_number(b, &count) || !text_expects(b, '>')))
      return false;
    if (!ptx_build_registers(b, (uint32_t)(count > UINT32_MAX ? UINT32_MAX : count), bytes, &first))
      return false;
    struct ptx_symbol *s =
        ptx_symbol_add(b, name, is_family ? PTX_A_FAMILY : PTX_A_REGISTER, first);
    if (!s)
      return false;
    s->count = (uint32_t)count;
  } while (text_takes(b, ','));
  return text_expects(b, ';');
}

static bool file_declare(struct ptx_build *b) {
  uint64_t number;
  if (!text_number(b, &number) || !text_expects(b, '"'))
    return false;
  const size_t length = strcspn(b->at, "\"\n");
  struct ptx_program *p = b->program;
  if (number == 0 || number > 4096)
    return ptx_build_refuse(b, "a source file of number %llu", (unsigned long long)number);
  if (number > p->file_count) {
    char **files = realloc(p->files, number * sizeof *files);
    if (!files)
      return ptx_build_refuse(b, "no memory");
    memset(files + p->file_count, 0, (number - p->file_count) * sizeof *files);
    p->files = files;
    p->file_count = (uint32_t)number;
  }
  free(p->files[number - 1]);
  p->files[number - 1] = strndup(b->at, length);
  b->at += strcspn(b->at, "\n");
  return true;
}

// .loc file line column ...: to the end of the line.
static bool location_parse(struct ptx_build *b) {
  uint64_t file = 0, line = 0;
  if (!text_number(b, &file) || !text_number(b, &line))
    return false;
  b->source_file = (uint32_t)file;
  b->source_line = (uint32_t)line;
  b->at += strcspn(b->at, "\n");
  return true;
}

// -------------------------------------------------------------------- operands --

static const struct {
  const char *name;
  enum ptx_special special;
} specials[] = {{"%tid.x", PTX_TID},       {"%ntid.x", PTX_NTID},     {"%ctaid.x", PTX_CTAID},
                {"%nctaid.x", PTX_NCTAID}, {"%tid.y", PTX_ZERO},      {"%tid.z", PTX_ZERO},
                {"%ctaid.y", PTX_ZERO},    {"%ctaid.z", PTX_ZERO},    {"%ntid.y", PTX_ONE},
                {"%ntid.z", PTX_ONE},      {"%nctaid.y", PTX_ONE},    {"%nctaid.z", PTX_ONE},
                {"%laneid", PTX_LANE},     {"%warpid", PTX_WARP_ID},  {"%smid", PTX_SM},
                {"%clock", PTX_CLOCK},     {"%clock64", PTX_CLOCK64}, {"%globaltimer", PTX_TIMER}};

// %r17 of the family %r, or a register that was declared alone.
static bool register_find(const struct ptx_build *b, const char *word, uint32_t *reg) {
  const size_t length = strlen(word);
  size_t stem = length;
  const struct ptx_symbol *s = ptx_symbol_find(b, word, length);
  if (s && s->kind == PTX_A_REGISTER) {
    *reg = (uint32_t)s->value;
    return true;
  }
  while (stem > 0 && isdigit((unsigned char)word[stem - 1]))
    stem--;
  s = stem < length ? ptx_symbol_find(b, word, stem) : NULL;
  const unsigned long number = stem < length ? strtoul(word + stem, NULL, 10) : 0;
  if (!s || s->kind != PTX_A_FAMILY || number >= s->count)
    return false;
  *reg = (uint32_t)(s->value + number);
  return true;
}

static bool number_take(struct ptx_build *b, struct ptx_term *t) {
  const bool is_negative = *b->at == '-';
  const char *digits = b->at + is_negative;
  if (digits[0] == '0' &&
      (digits[1] == 'f' || digits[1] == 'F' || digits[1] == 'd' || digits[1] == 'D')) {
    char word[PTX_NAME_BYTES], *end;
    if (!text_word(b, word))
      return false;
    const bool is_single = word[1] == 'f' || word[1] == 'F';
    t->kind = is_single ? PTX_T_FLOAT : PTX_T_DOUBLE;
    t->value = strtoull(word + 2, &end, 16);
    return (!*end && strlen(word) == (is_single ? 10u : 18u)) ||
           ptx_build_refuse(b, "\"%s\" is no number", word);
  }
  t->kind = PTX_T_NUMBER;
  return text_number(b, &t->value);
}

static bool symbol_use(struct ptx_build *b, const char *word, struct ptx_term *t) {
  t->symbol = ptx_symbol_find(b, word, strlen(word));
  if (t->symbol || word[0] == '%')
    return t->symbol || ptx_build_refuse(b, "%s is not declared", word);
  // A label may come later.
  uint32_t label;
  if (!ptx_build_label(b, &label))
    return false;
  t->symbol = ptx_symbol_add(b, word, PTX_A_LABEL, label);
  return t->symbol != NULL;
}

// A name: a register, a special register or a symbol.
static bool name_take(struct ptx_build *b, struct ptx_term *t) {
  char word[PTX_NAME_BYTES];
  if (!text_word(b, word))
    return false;
  if (strcmp(word, "_") == 0) {
    t->kind = PTX_T_NOTHING;
    return true;
  }
  if (register_find(b, word, &t->reg)) {
    t->kind = PTX_T_REGISTER;
    if (!text_takes(b, '|'))
      return true;
    return (text_word(b, word) && register_find(b, word, &t->second)) ||
           ptx_build_refuse(b, "%s is not declared", word);
  }
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (strcmp(word, specials[i].name) == 0) {
      t->kind = PTX_T_SPECIAL;
      t->value = specials[i].special;
      return true;
    }
  t->kind = PTX_T_SYMBOL;
  return word[0] ? symbol_use(b, word, t) : ptx_build_refuse(b, "no operand at \"%.20s\"", b->at);
}

static bool is_number(const struct ptx_build *b) {
  return isdigit((unsigned char)b->at[0]) || b->at[0] == '-';
}

// + 8 or +-8 after a name.
static bool offset_take(struct ptx_build *b, struct ptx_term *t) {
  uint64_t value;
  if (!text_takes(b, '+')) {
    text_skip(b);
    if (*b->at != '-')
      return true;
  }
  if (!text_number(b, &value))
    return false;
  t->offset = (int64_t)value;
  return true;
}

static bool address_take(struct ptx_build *b, struct ptx_term *t) {
  text_skip(b);
  if (is_number(b)) {
    uint64_t value;
    if (!text_number(b, &value))
      return false;
    t->offset = (int64_t)value;
  } else if (!name_take(b, t) || !offset_take(b, t)) {
    return false;
  }
  if (t->kind == PTX_T_SPECIAL || t->kind == PTX_T_NOTHING)
    return ptx_build_refuse(b, "no address");
  t->kind = PTX_T_ADDRESS;
  return text_expects(b, ']');
}

static bool vector_take(struct ptx_build *b, struct ptx_term *t) {
  do {
    struct ptx_term part = {.reg = PTX_NO_REGISTER, .second = PTX_NO_REGISTER};
    text_skip(b);
    if (t->part_count == PTX_MAX_PARTS)
      return ptx_build_refuse(b, "a vector of more than %u elements", PTX_MAX_PARTS);
    if (is_number(b) || !name_take(b, &part) ||
        (part.kind != PTX_T_REGISTER && part.kind != PTX_T_NOTHING))
      return ptx_build_refuse(b, "an element of a vector is no register");
    t->parts[t->part_count++] = part.kind == PTX_T_NOTHING ? PTX_NO_REGISTER : part.reg;
  } while (text_takes(b, ','));
  t->kind = PTX_T_VECTOR;
  return text_expects(b, '}');
}

static bool term_take(struct ptx_build *b, struct ptx_term *t) {
  *t = (struct ptx_term){.reg = PTX_NO_REGISTER, .second = PTX_NO_REGISTER};
  text_skip(b);
  if (text_takes(b, '['))
    return address_take(b, t);
  if (text_takes(b, '{'))
    return vector_take(b, t);
  t->is_negated = text_takes(b, '!');
  text_skip(b);
  if (is_number(b))
    return number_take(b, t);
  return name_take(b, t) && offset_take(b, t);
}

// ------------------------------------------------------------------ statements --

static bool instruction_parse(struct ptx_build *b, const char *text) {
  struct ptx_term terms[PTX_MAX_TERMS];
  uint32_t count = 0;
  if (!text_takes(b, ';')) {
    do {
      if (count == PTX_MAX_TERMS)
        return ptx_build_refuse(b, "%s has too many operands", text);
      if (!term_take(b, &terms[count++]))
        return false;
    } while (text_takes(b, ','));
    if (!text_expects(b, ';'))
      return false;
  }
  return ptx_build_decode(b, text, terms, count);
}

// @p or @!p before an instruction: jumps over it where the predicate does not hold.
static bool guarded_parse(struct ptx_build *b) {
  struct ptx_term guard;
  char word[PTX_NAME_BYTES];
  uint32_t label;
  if (!term_take(b, &guard) || !text_word(b, word))
    return false;
  if (guard.kind != PTX_T_REGISTER || b->register_bytes[guard.reg] != 1)
    return ptx_build_refuse(b, "the guard is no predicate");
  const bool is_branch = strcmp(word, "bra") == 0 || strcmp(word, "bra.uni") == 0;
  struct ptx_term target = {.kind = PTX_T_NOTHING};
  if (is_branch) {
    if (!term_take(b, &target) || !text_expects(b, ';'))
      return false;
    if (target.kind != PTX_T_SYMBOL || target.symbol->kind != PTX_A_LABEL)
      return ptx_build_refuse(b, "the target of a branch is no label");
    label = (uint32_t)target.symbol->value;
  } else if (!ptx_build_label(b, &label)) {
    return false;
  }
  struct ptx_instr *i =
      ptx_build_add(b, guard.is_negated == is_branch ? ptx_run_unless : ptx_run_branch, 0, 1);
  if (!i)
    return false;
  i->r[0] = guard.reg;
  i->target = label;
  return is_branch || (instruction_parse(b, word) && ptx_build_place(b, label));
}

static bool label_parse(struct ptx_build *b, const char *name) {
  struct ptx_term t = {.reg = PTX_NO_REGISTER};
  return symbol_use(b, name, &t) &&
         (t.symbol->kind == PTX_A_LABEL || ptx_build_refuse(b, "%s is no label", name)) &&
         ptx_build_place(b, (uint32_t)t.symbol->value);
}

static bool statement_parse(struct ptx_build *b) {
  char word[PTX_NAME_BYTES];
  if (text_takes(b, '{'))
    return b->depth++, true;
  if (text_takes(b, '}')) {
    b->depth--;
    ptx_symbols_end(b);
    return true;
  }
  if (text_takes(b, '@'))
    return guarded_parse(b);
  if (!text_word(b, word))
    return false;
  if (strcmp(word, ".reg") == 0)
    return registers_declare(b);
  if (strcmp(word, ".shared") == 0 || strcmp(word, ".pragma") == 0)
    return text_skip_past(b, ';');
  if (strcmp(word, ".loc") == 0)
    return location_parse(b);
  if (word[0] == '.' || word[0] == '\0')
    return ptx_build_refuse(b, "\"%.30s\" is not supported", word[0] ? word : b->at);
  if (text_takes(b, ':'))
    return label_parse(b, word);
  return instruction_parse(b, word);
}

// The shared variables of an entry, before its instructions: dynamic memory comes after them all.
static bool shared_scan(struct ptx_build *b) {
  const char *at = b->at;
  const uint32_t line = b->line;
  uint32_t depth = 1;
  for (bool is_start = true; depth; b->at++) {
    text_skip(b);
    if (!*b->at)
      return ptx_build_refuse(b, "the text ends inside an entry");
    if (is_start && strncmp(b->at, ".shared", 7) == 0) {
      b->at += 7;
      if (!shared_declare(b, false))
        return false;
      b->at--;
    } else if (is_start && strncmp(b->at, ".loc", 4) == 0) {
      b->at += strcspn(b->at, "\n") - 1;
      continue;
    }
    depth += *b->at == '{';
    depth -= *b->at == '}';
    is_start = strchr(";{}:", *b->at) != NULL;
  }
  if (b->dynamic_align) {
    const uint64_t end = b->kernel->shared_bytes, align = b->dynamic_align;
    b->kernel->shared_bytes = (uint32_t)((end + align - 1) / align * align);
    if (!ptx_symbol_add(b, b->dynamic_name, PTX_A_SHARED,
                        PTX_SHARED_BASE + b->kernel->shared_bytes))
      return false;
  }
  b->at = at;
  b->line = line;
  return true;
}

static bool params_parse(struct ptx_build *b) {
  struct ptx_kernel *k = b->kernel;
  uint32_t capacity = 0;
  if (!text_expects(b, '('))
    return false;
  while (!text_takes(b, ')')) {
    char word[PTX_NAME_BYTES];
    struct variable v;
    if (!text_word(b, word) || strcmp(word, ".param") != 0 || !variable_parse(b, &v) || v.is_open)
      return ptx_build_refuse(b, "a parameter of a form that is not supported");
    const uint64_t at = (k->param_bytes + v.align - 1) / v.align * v.align;
    if (at + v.bytes > PTX_PARAM_BYTES)
      return ptx_build_refuse(b, "parameters of more than %u bytes", PTX_PARAM_BYTES);
    if (!ptx_build_grow(b, &k->params, k->param_count, &capacity, sizeof *k->params) ||
        !ptx_symbol_add(b, v.name, PTX_A_PARAM, at))
      return false;
    k->params[k->param_count++] = (struct ptx_param){(uint32_t)at, (uint32_t)v.bytes};
    k->param_bytes = (uint32_t)(at + v.bytes);
    (void)text_takes(b, ',');
  }
  return true;
}

// .maxntid 512, 1, 1 and .minnctapersm 1 between the parameters and the body.
static bool bounds_parse(struct ptx_build *b) {
  while (!text_takes(b, '{')) {
    char word[PTX_NAME_BYTES];
    uint64_t value, threads = 1;
    if (!text_word(b, word))
      return false;
    do {
      if (!text_number(b, &value))
        return false;
      threads = value < PTX_MAX_THREADS ? threads * value : PTX_MAX_THREADS;
    } while (text_takes(b, ','));
    if (strcmp(word, ".maxntid") == 0 || strcmp(word, ".reqntid") == 0)
      b->kernel->max_threads = (uint32_t)threads;
    else if (strcmp(word, ".minnctapersm") != 0)
      return ptx_build_refuse(b, "\"%s\" is not supported", word);
  }
  return true;
}

// Targets become instructions, and each control instruction learns how many others came before it.
static bool kernel_link(struct ptx_build *b) {
  struct ptx_kernel *k = b->kernel;
  uint32_t straight = 0;
  for (uint32_t n = 0; n < k->count; n++) {
    struct ptx_instr *i = &k->code[n];
    const bool is_branch =
        i->run == ptx_run_jump || i->run == ptx_run_branch || i->run == ptx_run_unless;
    straight += i->run != ptx_run_block;
    if (is_branch || i->run == ptx_run_block || i->run == ptx_run_exit) {
      i->straight = (uint16_t)(straight < UINT16_MAX ? straight : UINT16_MAX);
      straight = 0;
    }
    if (!is_branch)
      continue;
    b->line = k->lines[n].text;
    if (b->labels[i->target] == UINT32_MAX)
      return ptx_build_refuse(b, "a branch to a label that is not there");
    i->target = b->labels[i->target];
  }
  return true;
}

static void kernel_free(struct ptx_kernel *k) {
  free(k->name);
  free(k->code);
  free(k->lines);
  free(k->constants);
  free(k->params);
  free(k);
}

// What the build keeps beside the kernel and starts anew with each.
static void build_clear(struct ptx_build *b) {
  free(b->symbols);
  free(b->register_bytes);
  free(b->labels);
  free(b->constant_next);
  b->symbols = NULL;
  b->register_bytes = NULL;
  b->labels = b->constant_next = NULL;
  b->symbol_count = b->symbol_capacity = b->register_count = b->register_capacity = 0;
  b->label_count = b->label_capacity = b->constant_capacity = b->slot_capacity = b->capacity = 0;
  b->source_line = b->source_file = 0;
  memset(b->buckets, 0, sizeof b->buckets);
  memset(b->constant_buckets, 0, sizeof b->constant_buckets);
}

static bool entry_body_parse(struct ptx_build *b) {
  if (!params_parse(b) || !bounds_parse(b) || !shared_scan(b))
    return false;
  for (b->depth = 1; b->depth && !b->has_failed;) {
    text_skip(b);
    if (!*b->at)
      return ptx_build_refuse(b, "the text ends inside an entry");
    if (!statement_parse(b))
      return false;
  }
  return ptx_build_add(b, ptx_run_exit, 0, 0) && kernel_link(b) && ptx_build_allocate(b);
}

static bool entry_parse(struct ptx_build *b) {
  char name[PTX_NAME_BYTES];
  struct ptx_kernel *k = calloc(1, sizeof *k);
  if (!k)
    return ptx_build_refuse(b, "no memory");
  k->max_threads = PTX_MAX_THREADS;
  b->kernel = k;
  bool is_sound = text_word(b, name) && entry_body_parse(b);
  build_clear(b);
  k->name = is_sound ? strdup(name) : NULL;
  if (!k->name) {
    kernel_free(k);
    return ptx_build_refuse(b, "no memory");
  }
  b->kernel = NULL;
  k->next = b->program->kernels;
  b->program->kernels = k;
  return true;
}

// .section .debug_str { ... }
static bool section_skip(struct ptx_build *b) {
  uint32_t depth = 0;
  do {
    text_skip(b);
    if (!*b->at)
      return ptx_build_refuse(b, "the text ends inside a section");
    depth += *b->at == '{';
    depth -= *b->at == '}';
  } while (*b->at++ != '}' || depth);
  return true;
}

static bool module_parse(struct ptx_build *b) {
  bool is_extern = false;
  for (text_skip(b); *b->at && !b->has_failed; text_skip(b)) {
    char word[PTX_NAME_BYTES];
    uint64_t size = 0;
    if (!text_word(b, word))
      return false;
    bool is_sound = true;
    if (strcmp(word, ".version") == 0 || strcmp(word, ".target") == 0)
      b->at += strcspn(b->at, "\n");
    else if (strcmp(word, ".address_size") == 0)
      is_sound = text_number(b, &size) &&
                 (size == 64 || ptx_build_refuse(b, "addresses of %u bits", (unsigned)size));
    else if (strcmp(word, ".extern") == 0)
      is_extern = true;
    else if (strcmp(word, ".shared") == 0)
      is_sound = shared_declare(b, is_extern), is_extern = false;
    else if (strcmp(word, ".entry") == 0)
      is_sound = entry_parse(b);
    else if (strcmp(word, ".file") == 0)
      is_sound = file_declare(b);
    else if (strcmp(word, ".section") == 0)
      is_sound = section_skip(b);
    else if (strcmp(word, ".visible") != 0 && strcmp(word, ".weak") != 0)
      is_sound = ptx_build_refuse(b, "\"%.30s\" is not supported", word[0] ? word : b->at);
    if (!is_sound)
      return false;
  }
  return !b->has_failed;
}

int ptx_program_parse(const char *text, struct ptx_program **program, char *why, size_t why_bytes) {
  struct ptx_build *b = calloc(1, sizeof *b);
  struct ptx_program *p = calloc(1, sizeof *p);
  if (!b || !p) {
    free(b);
    free(p);
    snprintf(why, why_bytes, "no memory");
    return -1;
  }
  b->at = text;
  b->line = 1;
  b->why = why;
  b->why_bytes = why_bytes;
  b->program = p;
  const bool is_sound = module_parse(b);
  free(b);
  if (!is_sound) {
    ptx_program_destroy(p);
    return -1;
  }
  *program = p;
  return 0;
}

void ptx_program_destroy(struct ptx_program *program) {
  while (program->kernels) {
    struct ptx_kernel *k = program->kernels;
    program->kernels = k->next;
    kernel_free(k);
  }
  for (uint32_t i = 0; i < program->file_count; i++)
    free(program->files[i]);
  free(program->files);
  free(program);
}

const struct ptx_kernel *ptx_program_kernel(const struct ptx_program *program, const char *name) {
  const struct ptx_kernel *k = program->kernels;
  while (k && strcmp(k->name, name) != 0)
    k = k->next;
  return k;
}

const char *ptx_program_file(const struct ptx_program *program, uint32_t file) {
  return file && file <= program->file_count ? program->files[file - 1] : NULL;
}
