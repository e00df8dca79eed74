#include "sim/analyse/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

// Names of instructions, for the message that refuses one.
static const struct {
  unsigned char code;
  const char *name;
} refused_names[] = {
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'L', "LONG"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {'d', "DICT"},
    {'g', "GET"},
    {'i', "INST"},
    {'l', "LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

void rondo_analyse_pickle_init(struct rondo_analyse_pickle *p, struct rondo_analyse_input *in,
                               struct rondo_analyse_strings *strings) {
  *p = (struct rondo_analyse_pickle){.in = in, .strings = strings, .streamed_id = UINT32_MAX};
}

void rondo_analyse_pickle_fini(struct rondo_analyse_pickle *p) {
  for (uint32_t i = 0; i < p->containers_made; i++) {
    free(p->containers[i].items);
  }
  free(p->containers);
  free(p->stack);
  free(p->memo);
  free(p->marks);
}

static bool pickle_fail(struct rondo_analyse_pickle *p, const char *message) {
  if (!p->failed) {
    p->failed = true;
    p->error_offset = rondo_analyse_input_offset(p->in);
    snprintf(p->message, sizeof p->message, "%s", message);
  }
  return false;
}

static bool instruction_refuse(struct rondo_analyse_pickle *p, unsigned char code) {
  const char *name = "unknown";
  char message[160];
  for (size_t i = 0; i < sizeof refused_names / sizeof *refused_names; i++) {
    name = refused_names[i].code == code ? refused_names[i].name : name;
  }
  snprintf(message, sizeof message,
           "refused: pickle instruction %s (0x%02x) is not plain data, and is not executed", name,
           code);
  p->in->begin--; // the position of the instruction itself
  return pickle_fail(p, message);
}

static bool stack_push(struct rondo_analyse_pickle *p, struct rondo_analyse_pickle_value value) {
  RONDO_SIM_GROW(p->stack, p->stack_count, p->stack_capacity, 256);
  p->stack[p->stack_count++] = value;
  return true;
}

static bool integer_push(struct rondo_analyse_pickle *p, enum rondo_analyse_pickle_type type,
                         int64_t integer) {
  return stack_push(p, (struct rondo_analyse_pickle_value){.type = type, .integer = integer});
}

static struct rondo_analyse_pickle_container *
container_of(const struct rondo_analyse_pickle *p, struct rondo_analyse_pickle_value value) {
  bool is_container =
      value.type == RONDO_ANALYSE_PICKLE_LIST || value.type == RONDO_ANALYSE_PICKLE_DICT;
  return is_container && (uint64_t)value.integer < p->container_count
             ? &p->containers[value.integer]
             : NULL;
}

static void container_add(struct rondo_analyse_pickle_container *c,
                          struct rondo_analyse_pickle_value value) {
  RONDO_SIM_GROW(c->items, c->count, c->capacity, 4);
  c->items[c->count++] = value;
}

// True if the next value becomes an item of the streamed list: the open frame belongs to a list
// that directly follows its key in the outermost dictionary.
static bool at_entry(const struct rondo_analyse_pickle *p) {
  if (!p->entry || p->mark_count != 2) {
    return false;
  }
  size_t mark = p->marks[1];
  return mark >= 2 && p->stack[mark - 1].type == RONDO_ANALYSE_PICKLE_LIST &&
         p->stack[mark - 2].type == RONDO_ANALYSE_PICKLE_STRING &&
         (uint64_t)p->stack[mark - 2].integer == p->streamed_id;
}

static bool container_push(struct rondo_analyse_pickle *p, enum rondo_analyse_pickle_type type) {
  if (type == RONDO_ANALYSE_PICKLE_DICT && at_entry(p)) {
    p->entry_first = p->container_count;
    p->entry_memoized = false;
  }
  RONDO_SIM_GROW(p->containers, p->container_count, p->container_capacity, 64);
  if (p->container_count == p->containers_made) {
    p->containers[p->containers_made++] = (struct rondo_analyse_pickle_container){0};
  }
  p->containers[p->container_count].count = 0;
  return integer_push(p, type, p->container_count++);
}

// Moves the top `count` values into a new tuple.
static bool tuple_push(struct rondo_analyse_pickle *p, size_t count) {
  if (p->stack_count < count) {
    return pickle_fail(p, "a tuple of more values than there are");
  }
  size_t first = p->stack_count - count;
  container_push(p, RONDO_ANALYSE_PICKLE_LIST);
  struct rondo_analyse_pickle_value made = p->stack[p->stack_count - 1];
  for (size_t i = 0; i < count; i++) {
    container_add(container_of(p, made), p->stack[first + i]);
  }
  p->stack_count = first;
  return stack_push(p, made);
}

static bool mark_push(struct rondo_analyse_pickle *p) {
  RONDO_SIM_GROW(p->marks, p->mark_count, p->mark_capacity, 16);
  p->marks[p->mark_count++] = p->stack_count;
  return true;
}

// Closes the open frame and sets *first to its first value; fails if no frame is open.
static bool mark_pop(struct rondo_analyse_pickle *p, size_t *first) {
  if (!p->mark_count || p->marks[p->mark_count - 1] > p->stack_count) {
    return pickle_fail(p, "the end of a frame that was never begun");
  }
  *first = p->marks[--p->mark_count];
  return true;
}

static void entry_give(struct rondo_analyse_pickle *p, struct rondo_analyse_pickle_value entry) {
  p->entry(p->context, p, entry);
  if (!p->entry_memoized && p->entry_first < p->container_count) {
    p->container_count = p->entry_first;
  }
}

// True if the container below `first` is the streamed list.
static bool is_streamed_list(const struct rondo_analyse_pickle *p, size_t first) {
  return p->entry && p->mark_count == 1 && first >= 2 &&
         p->stack[first - 2].type == RONDO_ANALYSE_PICKLE_STRING &&
         (uint64_t)p->stack[first - 2].integer == p->streamed_id;
}

// Adds the values from `first` on to the list below them on the stack.
static bool list_extend(struct rondo_analyse_pickle *p, size_t first) {
  if (first < 1 || first > p->stack_count ||
      p->stack[first - 1].type != RONDO_ANALYSE_PICKLE_LIST ||
      !container_of(p, p->stack[first - 1])) {
    return pickle_fail(p, "items for a list where there is no list");
  }
  bool streamed = is_streamed_list(p, first);
  for (size_t i = first; i < p->stack_count; i++) {
    if (!streamed) {
      container_add(container_of(p, p->stack[first - 1]), p->stack[i]);
    } else if (p->stack[i].type != RONDO_ANALYSE_PICKLE_NONE) {
      p->entry(p->context, p, p->stack[i]);
    }
  }
  p->stack_count = first;
  return true;
}

// Adds the keys and values from `first` on to the dictionary below them on the stack.
static bool dict_extend(struct rondo_analyse_pickle *p, size_t first) {
  if (first < 1 || first > p->stack_count || (p->stack_count - first) % 2 ||
      p->stack[first - 1].type != RONDO_ANALYSE_PICKLE_DICT ||
      !container_of(p, p->stack[first - 1])) {
    return pickle_fail(p, "items for a dictionary where there is no dictionary");
  }
  struct rondo_analyse_pickle_container *c = container_of(p, p->stack[first - 1]);
  for (size_t i = first; i < p->stack_count; i++) {
    container_add(c, p->stack[i]);
  }
  p->stack_count = first;
  if (at_entry(p)) {
    entry_give(p, p->stack[first - 1]);
    p->stack[first - 1] = (struct rondo_analyse_pickle_value){.type = RONDO_ANALYSE_PICKLE_NONE};
  }
  return true;
}

static bool memo_put(struct rondo_analyse_pickle *p, uint64_t at) {
  if (!p->stack_count) {
    return pickle_fail(p, "something to remember where there is nothing");
  }
  // Writers number the memo from 0 without gaps.
  if (at > p->memo_next) {
    return pickle_fail(p, "a memo number out of turn");
  }
  p->memo_next += at == p->memo_next;
  if (at >= p->memo_count) {
    size_t count = 2 * (size_t)at + 64;
    p->memo = rondo_sim_realloc(p->memo, count * sizeof *p->memo);
    memset(p->memo + p->memo_count, 0, (count - p->memo_count) * sizeof *p->memo);
    p->memo_count = count;
  }
  struct rondo_analyse_pickle_value top = p->stack[p->stack_count - 1];
  p->memo[at] = top;
  p->entry_memoized |= container_of(p, top) && (uint64_t)top.integer >= p->entry_first;
  return true;
}

static bool memo_get(struct rondo_analyse_pickle *p, uint64_t at) {
  return at < p->memo_count ? stack_push(p, p->memo[at])
                            : pickle_fail(p, "a memo number never given out");
}

// Reads a little-endian number of `bytes` bytes (8 at most).
static bool number_take(struct rondo_analyse_pickle *p, unsigned bytes, uint64_t *value) {
  *value = 0;
  if (p->in->end - p->in->begin < bytes && !rondo_analyse_input_need(p->in, bytes)) {
    return pickle_fail(p, "the file ends inside an instruction (cut off?)");
  }
  for (unsigned i = 0; i < bytes; i++) {
    *value |= (uint64_t)(unsigned char)p->in->data[p->in->begin + i] << 8 * i;
  }
  p->in->begin += bytes;
  return true;
}

static bool string_take(struct rondo_analyse_pickle *p, unsigned size_bytes) {
  uint64_t size;
  if (!number_take(p, size_bytes, &size)) {
    return false;
  }
  if (size > UINT32_MAX || !rondo_analyse_input_need(p->in, (size_t)size)) {
    return pickle_fail(p, "the file ends inside a string (cut off?)");
  }
  uint32_t id = rondo_analyse_strings_add(p->strings, p->in->data + p->in->begin, (size_t)size);
  p->in->begin += (size_t)size;
  return integer_push(p, RONDO_ANALYSE_PICKLE_STRING, id);
}

static bool integer_take(struct rondo_analyse_pickle *p, unsigned bytes, bool is_signed) {
  uint64_t value;
  if (bytes > 8) {
    return pickle_fail(p, "an integer of more than 64 bits");
  }
  if (!number_take(p, bytes, &value)) {
    return false;
  }
  if (is_signed && bytes && bytes < 8 && value >> (8 * bytes - 1)) {
    value |= UINT64_MAX << 8 * bytes;
  }
  return integer_push(p, RONDO_ANALYSE_PICKLE_INTEGER, (int64_t)value);
}

static bool long_take(struct rondo_analyse_pickle *p, unsigned size_bytes) {
  uint64_t bytes;
  return number_take(p, size_bytes, &bytes) &&
         integer_take(p, bytes > 8 ? 9 : (unsigned)bytes, true);
}

static bool real_take(struct rondo_analyse_pickle *p) {
  uint64_t bits;
  if (!number_take(p, 8, &bits)) {
    return false;
  }
  bits = __builtin_bswap64(bits); // the only number that pickles write big-endian
  struct rondo_analyse_pickle_value value = {.type = RONDO_ANALYSE_PICKLE_REAL};
  memcpy(&value.real, &bits, sizeof value.real);
  return stack_push(p, value);
}

static bool number_take_for(struct rondo_analyse_pickle *p, unsigned bytes,
                            bool (*then)(struct rondo_analyse_pickle *, uint64_t)) {
  uint64_t value;
  return number_take(p, bytes, &value) && then(p, value);
}

static bool number_ignore(struct rondo_analyse_pickle *p, uint64_t value) {
  (void)p;
  (void)value;
  return true;
}

static bool frame_close(struct rondo_analyse_pickle *p, unsigned char code) {
  size_t first = 0;
  if (!mark_pop(p, &first)) {
    return false;
  }
  return code == 'e'   ? list_extend(p, first)
         : code == 'u' ? dict_extend(p, first)
                       : tuple_push(p, p->stack_count - first);
}

static bool item_add(struct rondo_analyse_pickle *p, unsigned char code) {
  size_t values = code == 'a' ? 1 : 2;
  if (p->stack_count < values) {
    return pickle_fail(p, "an item where there is none");
  }
  return code == 'a' ? list_extend(p, p->stack_count - values)
                     : dict_extend(p, p->stack_count - values);
}

static bool instruction_run_simple(struct rondo_analyse_pickle *p, unsigned char code) {
  switch (code) {
  case 'N':
    return integer_push(p, RONDO_ANALYSE_PICKLE_NONE, 0);
  case 0x88:
  case 0x89:
    return integer_push(p, RONDO_ANALYSE_PICKLE_BOOL, code == 0x88);
  case '}':
    return container_push(p, RONDO_ANALYSE_PICKLE_DICT);
  case ']':
  case ')':
    return container_push(p, RONDO_ANALYSE_PICKLE_LIST);
  case '(':
    return mark_push(p);
  case 'e':
  case 'u':
  case 't':
    return frame_close(p, code);
  case 'a':
  case 's':
    return item_add(p, code);
  case 0x85:
  case 0x86:
  case 0x87:
    return tuple_push(p, code - 0x84u);
  default:
    return instruction_refuse(p, code);
  }
}

static bool instruction_run(struct rondo_analyse_pickle *p, unsigned char code) {
  switch (code) {
  case 0x80: // PROTO
    return number_take_for(p, 1, number_ignore);
  case 0x95: // FRAME: a cut in the output of the writer
    return number_take_for(p, 8, number_ignore);
  case 'K':
    return integer_take(p, 1, false);
  case 'M':
    return integer_take(p, 2, false);
  case 'J':
    return integer_take(p, 4, true);
  case 0x8a:
    return long_take(p, 1);
  case 0x8b:
    return long_take(p, 4);
  case 'G':
    return real_take(p);
  case 0x8c:
    return string_take(p, 1);
  case 'X':
    return string_take(p, 4);
  case 0x8d:
    return string_take(p, 8);
  case 'q':
    return number_take_for(p, 1, memo_put);
  case 'r':
    return number_take_for(p, 4, memo_put);
  case 'h':
    return number_take_for(p, 1, memo_get);
  case 'j':
    return number_take_for(p, 4, memo_get);
  case 0x94: // MEMOIZE: the next number
    return memo_put(p, p->memo_next);
  default:
    return instruction_run_simple(p, code);
  }
}

// Keeps what a file that is cut off was about to add to the outermost dictionary.
static void items_salvage(struct rondo_analyse_pickle *p) {
  struct rondo_analyse_pickle_container *c = container_of(p, p->stack[0]);
  if (!p->failed || !p->mark_count || p->marks[0] != 1 || !c) {
    return;
  }
  size_t end = p->mark_count > 1 ? p->marks[1] : p->stack_count;
  for (size_t i = 1; i + 1 < end && i + 1 < p->stack_count; i += 2) {
    container_add(c, p->stack[i]);
    container_add(c, p->stack[i + 1]);
  }
}

bool rondo_analyse_pickle_run(struct rondo_analyse_pickle *p,
                              struct rondo_analyse_pickle_value *top) {
  *top = (struct rondo_analyse_pickle_value){0};
  if (p->streamed_key) {
    p->streamed_id =
        rondo_analyse_strings_add(p->strings, p->streamed_key, strlen(p->streamed_key));
  }
  uint64_t code;
  while (number_take(p, 1, &code) && code != '.') {
    if (!instruction_run(p, (unsigned char)code)) {
      break;
    }
  }
  if (!p->failed && (p->stack_count != 1 || p->mark_count)) {
    pickle_fail(p, "the pickle stops in the middle of a value");
  }
  if (p->stack_count) {
    *top = p->stack[0];
    items_salvage(p);
  }
  return !p->failed;
}

const struct rondo_analyse_pickle_value *
rondo_analyse_pickle_items(const struct rondo_analyse_pickle *p,
                           struct rondo_analyse_pickle_value list, uint32_t *count) {
  struct rondo_analyse_pickle_container *c = container_of(p, list);
  *count = c ? c->count : 0;
  return c ? c->items : NULL;
}

const char *rondo_analyse_pickle_text(const struct rondo_analyse_pickle *p,
                                      struct rondo_analyse_pickle_value value) {
  return value.type == RONDO_ANALYSE_PICKLE_STRING
             ? rondo_analyse_strings_get(p->strings, (uint32_t)value.integer)
             : "";
}

struct rondo_analyse_pickle_value rondo_analyse_pickle_get(const struct rondo_analyse_pickle *p,
                                                           struct rondo_analyse_pickle_value dict,
                                                           const char *key) {
  uint32_t count = 0;
  const struct rondo_analyse_pickle_value *items = NULL;
  if (dict.type == RONDO_ANALYSE_PICKLE_DICT) {
    items = rondo_analyse_pickle_items(p, dict, &count);
  }
  for (uint32_t i = 0; i + 1 < count; i += 2) {
    if (items[i].type == RONDO_ANALYSE_PICKLE_STRING &&
        strcmp(rondo_analyse_pickle_text(p, items[i]), key) == 0) {
      return items[i + 1];
    }
  }
  return (struct rondo_analyse_pickle_value){.type = RONDO_ANALYSE_PICKLE_NONE};
}

int64_t rondo_analyse_pickle_integer(const struct rondo_analyse_pickle *p,
                                     struct rondo_analyse_pickle_value value, int64_t otherwise) {
  if (value.type == RONDO_ANALYSE_PICKLE_INTEGER || value.type == RONDO_ANALYSE_PICKLE_BOOL) {
    return value.integer;
  }
  if (value.type != RONDO_ANALYSE_PICKLE_STRING) {
    return otherwise;
  }
  char *end;
  const char *text = rondo_analyse_pickle_text(p, value);
  int64_t number = strtoll(text, &end, 10);
  return end == text ? otherwise : number;
}
