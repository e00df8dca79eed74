// A kernel while it is parsed and decoded: its instructions, registers, constants, labels and
// symbols.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_build.h"

// ------------------------------------------------------------------- building --

bool ptx_build_refuse(struct ptx_build *b, const char *format, ...) {
  va_list list;
  if (b->has_failed)
    return false;
  b->has_failed = true;
  int length = snprintf(b->why, b->why_bytes, "PTX line %u: ", b->line);
  va_start(list, format);
  if (length > 0 && (size_t)length < b->why_bytes)
    vsnprintf(b->why + length, b->why_bytes - (size_t)length, format, list);
  va_end(list);
  return false;
}

bool ptx_build_grow(struct ptx_build *b, void *array, uint32_t count, uint32_t *capacity,
                    size_t bytes) {
  void *old;
  if (count < *capacity)
    return true;
  memcpy(&old, array, sizeof old);
  const uint32_t wanted = count ? 2 * count : 64;
  void *grown = realloc(old, wanted * bytes);
  if (!grown)
    return ptx_build_refuse(b, "no memory");
  memcpy(array, &grown, sizeof grown);
  *capacity = wanted;
  return true;
}

bool ptx_build_registers(struct ptx_build *b, uint32_t count, uint32_t bytes, uint32_t *first) {
  *first = b->register_count;
  if (count > 1u << 20)
    return ptx_build_refuse(b, "too many registers");
  for (uint32_t i = 0; i < count; i++) {
    if (!ptx_build_grow(b, &b->register_bytes, b->register_count, &b->register_capacity, 1))
      return false;
    b->register_bytes[b->register_count++] = (uint8_t)bytes;
  }
  return true;
}

// A constant fills one slot for each 2 bytes of its width, as a register does.
bool ptx_build_constant(struct ptx_build *b, uint64_t value, uint32_t bytes, uint32_t *operand) {
  struct ptx_kernel *k = b->kernel;
  const uint32_t width = bytes == 1 ? 2 : bytes;
  value = bytes == 1 ? (value ? UINT64_MAX : 0) : value;
  const uint32_t bucket = (uint32_t)((value * 0x9e3779b97f4a7c15u >> 40) + bytes) % PTX_BUCKETS;
  const uint64_t kept = width == 8 ? value : value & ((UINT64_C(1) << 8 * width) - 1);
  for (uint32_t slot = b->constant_buckets[bucket]; slot; slot = b->constant_next[slot - 1]) {
    const uint8_t *at = k->constants + (slot - 1) * PTX_SLOT_BYTES;
    if (at[PTX_SLOT_BYTES * (width / 2)] == width && ptx_element_read(at, width, 0) == kept) {
      *operand = PTX_CONSTANT | (slot - 1) * PTX_SLOT_BYTES;
      return true;
    }
  }
  // The slot after the constant holds its width.
  const uint32_t slots = width / 2 + 1, first = k->constant_bytes / PTX_SLOT_BYTES;
  for (uint32_t i = 0; i < slots; i++) {
    if (!ptx_build_grow(b, &k->constants, first + i, &b->constant_capacity, PTX_SLOT_BYTES) ||
        !ptx_build_grow(b, &b->constant_next, first + i, &b->slot_capacity, sizeof(uint32_t)))
      return false;
  }
  uint8_t *at = k->constants + (size_t)first * PTX_SLOT_BYTES;
  memset(at, 0, (size_t)slots * PTX_SLOT_BYTES);
  for (uint32_t lane = 0; lane < PTX_WARP; lane++)
    ptx_element_write(at, width, lane, value);
  at[PTX_SLOT_BYTES * (slots - 1)] = (uint8_t)width;
  b->constant_next[first] = b->constant_buckets[bucket];
  b->constant_buckets[bucket] = first + 1;
  k->constant_bytes += slots * PTX_SLOT_BYTES;
  *operand = PTX_CONSTANT | first * PTX_SLOT_BYTES;
  return true;
}

bool ptx_build_label(struct ptx_build *b, uint32_t *label) {
  if (!ptx_build_grow(b, &b->labels, b->label_count, &b->label_capacity, sizeof *b->labels))
    return false;
  *label = b->label_count;
  b->labels[b->label_count++] = UINT32_MAX;
  return true;
}

bool ptx_build_place(struct ptx_build *b, uint32_t label) {
  if (b->labels[label] != UINT32_MAX)
    return ptx_build_refuse(b, "a label stands twice");
  b->labels[label] = b->kernel->count;
  return ptx_build_add(b, ptx_run_block, 0, 0) != NULL;
}

struct ptx_instr *ptx_build_add(struct ptx_build *b, ptx_run *run, uint32_t written,
                                uint32_t read) {
  struct ptx_kernel *k = b->kernel;
  uint32_t capacity = b->capacity;
  if (!ptx_build_grow(b, &k->code, k->count, &capacity, sizeof *k->code) ||
      !ptx_build_grow(b, &k->lines, k->count, &b->capacity, sizeof *k->lines))
    return NULL;
  struct ptx_instr *i = &k->code[k->count];
  memset(i, 0, sizeof *i);
  i->run = run;
  i->written = (uint8_t)written;
  i->read = (uint8_t)read;
  k->lines[k->count++] = (struct ptx_line){b->line, b->source_line, b->source_file};
  return i;
}

// --------------------------------------------------------------------- symbols --

static uint32_t name_bucket(const char *name, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (uint8_t)name[i]) * 16777619u;
  return hash % PTX_BUCKETS;
}

struct ptx_symbol *ptx_symbol_find(const struct ptx_build *b, const char *name, size_t length) {
  uint32_t at = b->buckets[name_bucket(name, length)];
  for (; at; at = b->symbols[at - 1].next) {
    struct ptx_symbol *s = &b->symbols[at - 1];
    if (strncmp(s->name, name, length) == 0 && s->name[length] == '\0')
      return s;
  }
  return NULL;
}

struct ptx_symbol *ptx_symbol_add(struct ptx_build *b, const char *name, enum ptx_symbol_kind kind,
                                  uint64_t value) {
  if (!ptx_build_grow(b, &b->symbols, b->symbol_count, &b->symbol_capacity, sizeof *b->symbols))
    return NULL;
  struct ptx_symbol *s = &b->symbols[b->symbol_count++];
  const uint32_t bucket = name_bucket(name, strlen(name));
  memset(s, 0, sizeof *s);
  snprintf(s->name, sizeof s->name, "%s", name);
  s->kind = kind;
  s->value = value;
  s->depth = kind == PTX_A_LABEL ? 0 : b->depth;
  s->next = b->buckets[bucket];
  b->buckets[bucket] = b->symbol_count;
  return s;
}

void ptx_symbols_end(struct ptx_build *b) {
  for (uint32_t n = b->symbol_count; n > 0; n--) {
    struct ptx_symbol *s = &b->symbols[n - 1];
    if (s->depth > b->depth)
      s->name[0] = '\0';
  }
}

// ---------------------------------------------------------------- source lines --

static bool kernel_is_same(const struct ptx_kernel *a, const struct ptx_kernel *b) {
  if (!b || a->count != b->count || a->constant_bytes != b->constant_bytes ||
      (a->constant_bytes && memcmp(a->constants, b->constants, a->constant_bytes) != 0))
    return false;
  return memcmp(a->code, b->code, a->count * sizeof *a->code) == 0;
}

int ptx_program_take_lines(struct ptx_program *program, const struct ptx_program *lines) {
  char **files = calloc(lines->file_count + 1, sizeof *files);
  bool is_sound = files != NULL;
  for (const struct ptx_kernel *k = program->kernels; k && is_sound; k = k->next)
    is_sound = kernel_is_same(k, ptx_program_kernel(lines, k->name));
  for (uint32_t i = 0; i < lines->file_count && is_sound; i++)
    if (lines->files[i])
      is_sound = (files[i] = strdup(lines->files[i])) != NULL;
  if (!is_sound) {
    for (uint32_t i = 0; files && i < lines->file_count; i++)
      free(files[i]);
    free(files);
    return -1;
  }
  for (uint32_t i = 0; i < program->file_count; i++)
    free(program->files[i]);
  free(program->files);
  program->files = files;
  program->file_count = lines->file_count;
  for (struct ptx_kernel *k = program->kernels; k; k = k->next) {
    const struct ptx_line *from = ptx_program_kernel(lines, k->name)->lines;
    for (uint32_t n = 0; n < k->count; n++) {
      k->lines[n].source = from[n].source;
      k->lines[n].file = from[n].file;
    }
  }
  return 0;
}
