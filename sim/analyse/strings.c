#include "sim/analyse/strings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

#define FIRST_SLOTS 256u

void rondo_analyse_strings_init(struct rondo_analyse_strings *s) {
  *s = (struct rondo_analyse_strings){.slot_count = FIRST_SLOTS};
  s->slots = rondo_sim_calloc(s->slot_count, sizeof *s->slots);
  rondo_analyse_strings_add(s, "", 0);
}

void rondo_analyse_strings_fini(struct rondo_analyse_strings *s) {
  free(s->bytes);
  free(s->offsets);
  free(s->slots);
  *s = (struct rondo_analyse_strings){0};
}

static uint32_t hash_of(const char *data, size_t bytes) {
  uint64_t h = 0xcbf29ce484222325u ^ bytes;
  while (bytes >= 8) {
    uint64_t word;
    memcpy(&word, data, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    data += 8;
    bytes -= 8;
  }
  for (size_t i = 0; i < bytes; i++) {
    h = (h ^ (unsigned char)data[i]) * 0x100000001b3u;
  }
  return (uint32_t)(h ^ h >> 32);
}

// The slot of a string, or the free slot for it.
static uint32_t *slot_of(const struct rondo_analyse_strings *s, const char *data, size_t bytes) {
  for (uint32_t at = hash_of(data, bytes);; at++) {
    uint32_t *slot = &s->slots[at & (s->slot_count - 1)];
    const char *text = *slot ? s->bytes + s->offsets[*slot - 1] : NULL;
    if (!text || (strncmp(text, data, bytes) == 0 && text[bytes] == 0)) {
      return slot;
    }
  }
}

static void slots_grow(struct rondo_analyse_strings *s) {
  free(s->slots);
  s->slot_count *= 2;
  s->slots = rondo_sim_calloc(s->slot_count, sizeof *s->slots);
  for (uint32_t id = 0; id < s->count; id++) {
    const char *text = s->bytes + s->offsets[id];
    *slot_of(s, text, strlen(text)) = id + 1;
  }
}

static uint32_t string_append(struct rondo_analyse_strings *s, const char *data, size_t bytes) {
  if (s->size_bytes + bytes + 1 > s->capacity_bytes) {
    s->capacity_bytes = 2 * (s->size_bytes + bytes + 1) + 1024;
    s->bytes = rondo_sim_realloc(s->bytes, s->capacity_bytes);
  }
  RONDO_SIM_GROW(s->offsets, s->count, s->capacity, 128);
  s->offsets[s->count] = s->size_bytes;
  if (bytes) {
    memcpy(s->bytes + s->size_bytes, data, bytes);
  }
  s->bytes[s->size_bytes + bytes] = 0;
  s->size_bytes += bytes + 1;
  return s->count++;
}

uint32_t rondo_analyse_strings_add(struct rondo_analyse_strings *s, const char *data,
                                   size_t bytes) {
  bytes = bytes ? strnlen(data, bytes) : 0;
  uint32_t *slot = slot_of(s, data, bytes);
  if (*slot) {
    return *slot - 1;
  }
  uint32_t id = string_append(s, data, bytes);
  *slot = id + 1;
  if (2 * s->count > s->slot_count) {
    slots_grow(s);
  }
  return id;
}

uint32_t rondo_analyse_strings_print(struct rondo_analyse_strings *s, const char *format, ...) {
  char *text;
  va_list args;
  va_start(args, format);
  int bytes = vasprintf(&text, format, args);
  va_end(args);
  if (bytes < 0) {
    return 0; // no memory
  }
  uint32_t id = rondo_analyse_strings_add(s, text, (size_t)bytes);
  free(text);
  return id;
}

const char *rondo_analyse_strings_get(const struct rondo_analyse_strings *s, uint32_t id) {
  return id < s->count ? s->bytes + s->offsets[id] : "";
}
