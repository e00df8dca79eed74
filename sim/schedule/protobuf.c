#include "sim/schedule/protobuf.h"

#define VARINT_BITS 64u

bool rondo_schedule_varint_next(struct rondo_schedule_message *m, uint64_t *value) {
  *value = 0;
  if (m->at == m->end) {
    return false;
  }
  for (uint32_t shift = 0; shift < VARINT_BITS && m->at < m->end; shift += 7) {
    uint8_t byte = *m->at++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      m->is_broken = shift + 7 > VARINT_BITS && byte > 1; // more than 64 bits
      return !m->is_broken;
    }
  }
  m->is_broken = true;
  return false;
}

// Reads `count` bytes, the lowest first.
static bool fixed_next(struct rondo_schedule_message *m, uint32_t count, uint64_t *value) {
  *value = 0;
  if (rondo_schedule_message_bytes(m) < count) {
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    *value |= (uint64_t)*m->at++ << (8 * i);
  }
  return true;
}

static bool bytes_next(struct rondo_schedule_message *m, struct rondo_schedule_message *bytes) {
  uint64_t size;
  if (!rondo_schedule_varint_next(m, &size) || size > rondo_schedule_message_bytes(m)) {
    return false;
  }
  *bytes = (struct rondo_schedule_message){m->at, m->at + size, false};
  m->at += size;
  return true;
}

bool rondo_schedule_message_next(struct rondo_schedule_message *m, struct rondo_schedule_field *f) {
  uint64_t key;
  bool ok = false;
  *f = (struct rondo_schedule_field){0};
  if (!rondo_schedule_varint_next(m, &key)) {
    return false;
  }
  f->number = (uint32_t)(key >> 3);
  f->type = key & 7;
  switch (f->type) {
  case RONDO_SCHEDULE_VARINT:
    ok = rondo_schedule_varint_next(m, &f->value);
    break;
  case RONDO_SCHEDULE_FIXED64:
    ok = fixed_next(m, 8, &f->value);
    break;
  case RONDO_SCHEDULE_BYTES:
    ok = bytes_next(m, &f->bytes);
    break;
  case RONDO_SCHEDULE_FIXED32:
    ok = fixed_next(m, 4, &f->value);
    break;
  default:
    break;
  }
  m->is_broken = !ok || f->number == 0 || key >> 3 > UINT32_MAX;
  return !m->is_broken;
}
