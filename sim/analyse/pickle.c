#include "sim/analyse/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

// The instructions that are not plain data, and their names in the same order.
static const char refused_codes[] =
    "012FILPQRSTUVbcdgilopBC\x81\x82\x83\x84\x8e\x8f\x90\x91\x92\x93\x96\x97\x98";
static const char refused_names[] =
    "POP POP_MARK DUP FLOAT INT LONG PERSID BINPERSID REDUCE STRING BINSTRING "
    "SHORT_BINSTRING UNICODE BUILD GLOBAL DICT GET INST LIST OBJ PUT BINBYTES SHORT_BINBYTES "
    "NEWOBJ EXT1 EXT2 EXT4 BINBYTES8 EMPTY_SET ADDITEMS FROZENSET NEWOBJ_EX STACK_GLOBAL "
    "BYTEARRAY8 NEXT_BUFFER READONLY_BUFFER";

void rondo_analyse_pickle_init(struct rondo_analyse_pickle *p, struct rondo_analyse_input *in,
                               struct rondo_analyse_values *values) {
  *p = (struct rondo_analyse_pickle){.in = in, .values = values};
}

void rondo_analyse_pickle_fini(struct rondo_analyse_pickle *p) {
  free(p->stack);
  free(p->memo);
  free(p->marks);
}

__attribute__((format(printf, 2, 3))) static bool pickle_fail(struct rondo_analyse_pickle *p,
                                                              const char *format, ...) {
  if (!p->failed) {
    va_list args;
    va_start(args, format);
    vsnprintf(p->message, sizeof p->message, format, args);
    va_end(args);
    p->failed = true;
    p->error_offset = rondo_analyse_input_offset(p->in);
  }
  return false;
}

static bool instruction_refuse(struct rondo_analyse_pickle *p, unsigned char code) {
  const char *name = refused_names;
  const char *found = code ? strchr(refused_codes, code) : NULL;
  for (const char *at = refused_codes; found && at < found; at++) {
    name = strchr(name, ' ') + 1;
  }
  name = found ? name : "unknown";
  p->in->begin--; // the position of the instruction itself
  return pickle_fail(
      p, "refused: pickle instruction %.*s (0x%02x) is not plain data, and is not executed",
      (int)strcspn(name, " "), name, code);
}

static bool stack_push(struct rondo_analyse_pickle *p, struct rondo_analyse_value value) {
  RONDO_SIM_GROW(p->stack, p->stack_count, p->stack_capacity, 256);
  p->stack[p->stack_count++] = value;
  return true;
}

static bool none_push(struct rondo_analyse_pickle *p, size_t unused) {
  (void)unused;
  return stack_push(p, (struct rondo_analyse_value){0});
}

static bool boolean_push(struct rondo_analyse_pickle *p, size_t value) {
  return stack_push(p, rondo_analyse_integer((int64_t)value));
}

// True if the value below `first` is the streamed list: a list that directly follows its key.
static bool is_streamed_list(const struct rondo_analyse_pickle *p, size_t first) {
  return p->entry && first >= 2 && p->stack[first - 1].type == RONDO_ANALYSE_LIST &&
         p->stack[first - 2].type == RONDO_ANALYSE_STRING &&
         (uint64_t)p->stack[first - 2].integer == p->streamed_id;
}

// True if the next value becomes an item of the streamed list: the open frame belongs to it.
static bool at_entry(const struct rondo_analyse_pickle *p) {
  return p->mark_count == 2 && is_streamed_list(p, p->marks[1]);
}

static bool container_push(struct rondo_analyse_pickle *p, size_t type) {
  if (type == RONDO_ANALYSE_DICT && at_entry(p)) {
    p->entry_first = p->values->count;
    p->entry_memoized = false;
  }
  return stack_push(p, rondo_analyse_values_add(p->values, (enum rondo_analyse_value_type)type));
}

// Moves the values from `first` on to the end of a list or dictionary.
static void values_move(struct rondo_analyse_pickle *p, size_t first,
                        struct rondo_analyse_value to) {
  for (size_t i = first; i < p->stack_count; i++) {
    rondo_analyse_values_append(p->values, to, p->stack[i]);
  }
  p->stack_count = first;
}

// Moves the top `count` values into a new tuple.
static bool tuple_push(struct rondo_analyse_pickle *p, size_t count) {
  if (p->stack_count < count) {
    return pickle_fail(p, "a tuple of more values than there are");
  }
  struct rondo_analyse_value made = rondo_analyse_values_add(p->values, RONDO_ANALYSE_LIST);
  values_move(p, p->stack_count - count, made);
  return stack_push(p, made);
}

static bool mark_push(struct rondo_analyse_pickle *p, size_t unused) {
  (void)unused;
  RONDO_SIM_GROW(p->marks, p->mark_count, p->mark_capacity, 16);
  p->marks[p->mark_count++] = p->stack_count;
  return true;
}

// Adds the values from `first` on to the list below them on the stack.
static bool list_extend(struct rondo_analyse_pickle *p, size_t first) {
  if (first < 1 || p->stack[first - 1].type != RONDO_ANALYSE_LIST) {
    return pickle_fail(p, "items for a list where there is no list");
  }
  if (p->mark_count != 1 || !is_streamed_list(p, first)) {
    values_move(p, first, p->stack[first - 1]);
  }
  for (size_t i = first; i < p->stack_count; i++) {
    if (p->stack[i].type != RONDO_ANALYSE_NONE) {
      p->entry(p->context, p->stack[i]);
    }
  }
  p->stack_count = first;
  return true;
}

// Adds the keys and values from `first` on to the dictionary below them on the stack. Passes the
// dictionary on if it is an entry.
static bool dict_extend(struct rondo_analyse_pickle *p, size_t first) {
  if (first < 1 || (p->stack_count - first) % 2 || p->stack[first - 1].type != RONDO_ANALYSE_DICT) {
    return pickle_fail(p, "items for a dictionary where there is no dictionary");
  }
  values_move(p, first, p->stack[first - 1]);
  if (at_entry(p)) {
    p->entry(p->context, p->stack[first - 1]);
    p->stack[first - 1] = (struct rondo_analyse_value){0};
    if (!p->entry_memoized && p->entry_first < p->values->count) {
      p->values->count = p->entry_first;
    }
  }
  return true;
}

// Closes the open frame, whose values become items of a list ('e'), of a dictionary ('u') or of a
// new tuple ('t').
static bool frame_close(struct rondo_analyse_pickle *p, size_t code) {
  if (!p->mark_count || p->marks[p->mark_count - 1] > p->stack_count) {
    return pickle_fail(p, "the end of a frame that was never begun");
  }
  size_t first = p->marks[--p->mark_count];
  return code == 'e'   ? list_extend(p, first)
         : code == 'u' ? dict_extend(p, first)
                       : tuple_push(p, p->stack_count - first);
}

// Adds one value to a list, or a key and its value to a dictionary.
static bool item_add(struct rondo_analyse_pickle *p, size_t values) {
  if (p->stack_count < values) {
    return pickle_fail(p, "an item where there is none");
  }
  return values == 1 ? list_extend(p, p->stack_count - values)
                     : dict_extend(p, p->stack_count - values);
}

// Reads a little-endian number of `bytes` bytes (8 at most).
static bool number_take(struct rondo_analyse_pickle *p, size_t bytes, uint64_t *value) {
  *value = 0;
  if (p->in->end - p->in->begin < bytes && !rondo_analyse_input_need(p->in, bytes)) {
    return pickle_fail(p, "the file ends inside an instruction (cut off?)");
  }
  for (size_t i = 0; i < bytes; i++) {
    *value |= (uint64_t)(unsigned char)p->in->data[p->in->begin + i] << 8 * i;
  }
  p->in->begin += bytes;
  return true;
}

static bool number_ignore(struct rondo_analyse_pickle *p, size_t bytes) {
  uint64_t value;
  return number_take(p, bytes, &value);
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
  RONDO_SIM_GROW(p->memo, at, p->memo_count, 64);
  struct rondo_analyse_value top = p->stack[p->stack_count - 1];
  p->memo[at] = top;
  p->entry_memoized |= top.type >= RONDO_ANALYSE_LIST && (uint64_t)top.integer >= p->entry_first;
  return true;
}

static bool memo_add(struct rondo_analyse_pickle *p, size_t unused) {
  (void)unused;
  return memo_put(p, p->memo_next);
}

static bool memo_write(struct rondo_analyse_pickle *p, size_t bytes) {
  uint64_t at;
  return number_take(p, bytes, &at) && memo_put(p, at);
}

static bool memo_read(struct rondo_analyse_pickle *p, size_t bytes) {
  uint64_t at;
  if (!number_take(p, bytes, &at)) {
    return false;
  }
  return at < p->memo_next ? stack_push(p, p->memo[at])
                           : pickle_fail(p, "a memo number never given out");
}

static bool string_take(struct rondo_analyse_pickle *p, size_t size_bytes) {
  uint64_t size;
  if (!number_take(p, size_bytes, &size)) {
    return false;
  }
  if (size > UINT32_MAX || !rondo_analyse_input_need(p->in, (size_t)size)) {
    return pickle_fail(p, "the file ends inside a string (cut off?)");
  }
  const char *text = p->in->data + p->in->begin;
  p->in->begin += (size_t)size;
  return stack_push(
      p, rondo_analyse_string(rondo_analyse_strings_add(p->values->strings, text, (size_t)size)));
}

static bool unsigned_take(struct rondo_analyse_pickle *p, size_t bytes) {
  uint64_t value;
  return number_take(p, bytes, &value) && stack_push(p, rondo_analyse_integer((int64_t)value));
}

static bool signed_take(struct rondo_analyse_pickle *p, size_t bytes) {
  uint64_t value;
  if (!number_take(p, bytes, &value)) {
    return false;
  }
  if (bytes && bytes < 8 && value >> (8 * bytes - 1)) {
    value |= UINT64_MAX << 8 * bytes;
  }
  return stack_push(p, rondo_analyse_integer((int64_t)value));
}

static bool long_take(struct rondo_analyse_pickle *p, size_t size_bytes) {
  uint64_t bytes;
  if (!number_take(p, size_bytes, &bytes)) {
    return false;
  }
  return bytes > 8 ? pickle_fail(p, "an integer of more than 64 bits") : signed_take(p, bytes);
}

// No reader needs the real numbers of a dump.
static bool real_ignore(struct rondo_analyse_pickle *p, size_t bytes) {
  return number_ignore(p, bytes) && none_push(p, 0);
}

// The instructions that are plain data; `argument` is a number of bytes or of values, a type, a
// boolean, or the instruction itself.
static const struct {
  bool (*run)(struct rondo_analyse_pickle *p, size_t argument);
  size_t argument;
} instructions[256] = {
    [0x80] = {number_ignore, 1}, // PROTO
    [0x95] = {number_ignore, 8}, // FRAME: a cut in the output of the writer
    ['N'] = {none_push, 0},
    [0x88] = {boolean_push, true},
    [0x89] = {boolean_push, false},
    ['K'] = {unsigned_take, 1},
    ['M'] = {unsigned_take, 2},
    ['J'] = {signed_take, 4},
    [0x8a] = {long_take, 1},
    [0x8b] = {long_take, 4},
    ['G'] = {real_ignore, 8},
    [0x8c] = {string_take, 1},
    ['X'] = {string_take, 4},
    [0x8d] = {string_take, 8},
    ['}'] = {container_push, RONDO_ANALYSE_DICT},
    [']'] = {container_push, RONDO_ANALYSE_LIST},
    [')'] = {container_push, RONDO_ANALYSE_LIST},
    [0x85] = {tuple_push, 1},
    [0x86] = {tuple_push, 2},
    [0x87] = {tuple_push, 3},
    ['('] = {mark_push, 0},
    ['e'] = {frame_close, 'e'},
    ['u'] = {frame_close, 'u'},
    ['t'] = {frame_close, 't'},
    ['a'] = {item_add, 1},
    ['s'] = {item_add, 2},
    ['q'] = {memo_write, 1},
    ['r'] = {memo_write, 4},
    [0x94] = {memo_add, 0},
    ['h'] = {memo_read, 1},
    ['j'] = {memo_read, 4},
};

// Keeps what a file that is cut off was about to add to the outermost dictionary.
static void items_salvage(struct rondo_analyse_pickle *p) {
  if (!p->failed || !p->mark_count || p->marks[0] != 1) {
    return;
  }
  size_t end = p->mark_count > 1 && p->marks[1] < p->stack_count ? p->marks[1] : p->stack_count;
  p->stack_count = 1 + (end - 1) / 2 * 2; // whole pairs of a key and a value
  values_move(p, 1, p->stack[0]);
}

bool rondo_analyse_pickle_run(struct rondo_analyse_pickle *p, struct rondo_analyse_value *top) {
  *top = (struct rondo_analyse_value){0};
  uint64_t code;
  bool goes_on = true;
  while (goes_on && number_take(p, 1, &code) && code != '.') {
    goes_on = instructions[code].run ? instructions[code].run(p, instructions[code].argument)
                                     : instruction_refuse(p, (unsigned char)code);
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
