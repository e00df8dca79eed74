// The wire format of protocol buffers, as far as traces need it: fields of a message, one after the
// other. A message has no type of its own; the caller knows which numbers mean what.
//
//   struct rondo_schedule_message m = {bytes, bytes + size, false};
//   while (rondo_schedule_message_next(&m, &field)) ...
//   if (m.is_broken) ...
#ifndef RONDO_SIM_SCHEDULE_PROTOBUF_H
#define RONDO_SIM_SCHEDULE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rondo_schedule_wire_type {
  RONDO_SCHEDULE_VARINT = 0,
  RONDO_SCHEDULE_FIXED64 = 1,
  RONDO_SCHEDULE_BYTES = 2, // a string, a message, or packed numbers
  RONDO_SCHEDULE_FIXED32 = 5
};

struct rondo_schedule_message {
  const uint8_t *at, *end;
  bool is_broken; // it ends inside a field, or has one of no known type
};

struct rondo_schedule_field {
  uint32_t number, type; // enum rondo_schedule_wire_type
  uint64_t value;        // unless it is bytes
  struct rondo_schedule_message bytes;
};

// Reads the next field. Returns false at the end, or if the message is broken.
bool rondo_schedule_message_next(struct rondo_schedule_message *m, struct rondo_schedule_field *f);

// Reads a varint; false at the end, or if it is broken.
bool rondo_schedule_varint_next(struct rondo_schedule_message *m, uint64_t *value);

static inline size_t rondo_schedule_message_bytes(const struct rondo_schedule_message *m) {
  return (size_t)(m->end - m->at);
}

#endif // RONDO_SIM_SCHEDULE_PROTOBUF_H
