#include "sim/schedule/chakra_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "sim/schedule/protobuf.h"
#include <rondo/rondo.h>

#define MOST_NODES 0x10000000u       // of a rank, and so many dependencies
#define MOST_MESSAGE_BYTES 0xffffffu // of a node, whose text comes from a framework
#define MOST_US (UINT64_C(1) << 40)
#define MOST_BYTES (UINT64_C(1) << 46)

// Numbers of fields in the schema.
enum { METADATA_ATTRIBUTE = 2 };
enum {
  NODE_ID = 1,
  NODE_NAME = 2,
  NODE_TYPE = 3,
  NODE_CTRL_DEPS = 4,
  NODE_DATA_DEPS = 5,
  NODE_DURATION = 7,
  NODE_INPUTS = 8,
  NODE_ATTRIBUTE = 10
};
enum { IO_VALUES = 1 };
enum {
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_INT32 = 7,
  ATTRIBUTE_INT64 = 9,
  ATTRIBUTE_UINT32 = 11,
  ATTRIBUTE_UINT64 = 13,
  ATTRIBUTE_SINT32 = 15,
  ATTRIBUTE_SINT64 = 17,
  ATTRIBUTE_FIXED32 = 19,
  ATTRIBUTE_FIXED64 = 21,
  ATTRIBUTE_SFIXED32 = 23,
  ATTRIBUTE_SFIXED64 = 25,
  ATTRIBUTE_BOOL = 27,
  ATTRIBUTE_STRING = 29
};

struct reader {
  struct rondo_schedule_trace *t;
  struct rondo_analyse_input *in;
  const char *name;
  struct rondo_analyse_strings *strings;
  struct rondo_sim_error *error;
  // Of the node that is being read.
  struct rondo_schedule_trace_node node;
  struct rondo_schedule_message text, values; // its name, and what it is called with
};

static bool refuse_at(const struct reader *r, uint64_t offset, const char *what) {
  return rondo_sim_refuse(r->error, "%.200s: byte %" PRIu64 ": %s", r->name, offset, what);
}

static bool refuse_node(const struct reader *r, const char *what) {
  return rondo_sim_refuse(r->error, "%.200s: node %" PRIu64 ": %s", r->name, r->node.id, what);
}

static bool bytes_are(struct rondo_schedule_message m, const char *text) {
  return rondo_schedule_message_bytes(&m) == strlen(text) && memcmp(m.at, text, strlen(text)) == 0;
}

// ----------------------------------------------------------------- attributes ---

struct attribute {
  struct rondo_schedule_message name, text;
  uint64_t value; // RONDO_SCHEDULE_TRACE_UNSAID: it is no whole number from 0 on
  bool is_text;
};

// The whole number of a field, or RONDO_SCHEDULE_TRACE_UNSAID.
static uint64_t number_of(const struct rondo_schedule_field *f) {
  uint64_t value = f->value;
  switch (f->number) {
  case ATTRIBUTE_SINT32:
  case ATTRIBUTE_SINT64:
    return value & 1 ? RONDO_SCHEDULE_TRACE_UNSAID : value >> 1;
  case ATTRIBUTE_SFIXED32:
    return value >> 31 ? RONDO_SCHEDULE_TRACE_UNSAID : value;
  case ATTRIBUTE_INT32:
  case ATTRIBUTE_INT64:
  case ATTRIBUTE_UINT32:
  case ATTRIBUTE_UINT64:
  case ATTRIBUTE_FIXED32:
  case ATTRIBUTE_FIXED64:
  case ATTRIBUTE_SFIXED64:
  case ATTRIBUTE_BOOL:
    return value >> 63 ? RONDO_SCHEDULE_TRACE_UNSAID : value;
  default:
    return RONDO_SCHEDULE_TRACE_UNSAID;
  }
}

static bool attribute_read(struct rondo_schedule_message m, struct attribute *a) {
  struct rondo_schedule_field f;
  *a = (struct attribute){.value = RONDO_SCHEDULE_TRACE_UNSAID};
  while (rondo_schedule_message_next(&m, &f)) {
    bool is_bytes = f.type == RONDO_SCHEDULE_BYTES;
    if (f.number == ATTRIBUTE_NAME && is_bytes) {
      a->name = f.bytes;
    } else if (f.number == ATTRIBUTE_STRING && is_bytes) {
      a->text = f.bytes;
      a->is_text = true;
    } else if (!is_bytes) {
      a->value = number_of(&f);
    }
  }
  return !m.is_broken;
}

// Keeps what the simulator needs of an attribute.
static bool attribute_take(struct reader *r, const struct attribute *a) {
  struct rondo_schedule_trace_node *n = &r->node;
  const struct {
    const char *name;
    uint64_t *at, most;
  } numbers[] = {{"comm_type", &n->kind, UINT32_MAX},
                 {"comm_size", &n->bytes, MOST_BYTES},
                 {"comm_src", &n->source, RONDO_MAX_RANKS - 1},
                 {"comm_dst", &n->target, RONDO_MAX_RANKS - 1},
                 {"comm_tag", &n->tag, UINT32_MAX}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    if (bytes_are(a->name, numbers[i].name)) {
      *numbers[i].at = a->value;
      return a->value <= numbers[i].most ||
             rondo_sim_refuse(r->error,
                              "%.200s: node %" PRIu64 ": %s is no whole number up to %" PRIu64,
                              r->name, n->id, numbers[i].name, numbers[i].most);
    }
  }
  if (bytes_are(a->name, "is_cpu_op")) {
    n->on_cpu = a->value == 1;
  } else if (bytes_are(a->name, "pg_name")) {
    if (!a->is_text) {
      return refuse_node(r, "pg_name is no text");
    }
    n->group = rondo_analyse_strings_add(r->strings, (const char *)a->text.at,
                                         rondo_schedule_message_bytes(&a->text));
  }
  return true;
}

// --------------------------------------------------------------------- groups ---

static bool group_add(struct reader *r, const json_t *name, const json_t *ranks) {
  struct rondo_schedule_trace *t = r->t;
  size_t count = json_array_size(ranks);
  if (!json_is_string(name) || !json_is_array(ranks) || count > RONDO_MAX_RANKS) {
    return refuse_node(r, "a process group needs pg_name and ranks");
  }
  RONDO_SIM_GROW(t->groups, t->group_count, t->group_capacity, 4);
  struct rondo_schedule_trace_group *g = &t->groups[t->group_count++];
  g->name =
      rondo_analyse_strings_add(r->strings, json_string_value(name), json_string_length(name));
  g->count = (uint32_t)count;
  g->ranks = count ? rondo_sim_alloc(count * sizeof *g->ranks) : NULL;
  for (size_t i = 0; i < count; i++) {
    json_int_t rank = json_integer_value(json_array_get(ranks, i));
    if (!json_is_integer(json_array_get(ranks, i)) || rank < 0 || rank >= RONDO_MAX_RANKS) {
      return refuse_node(r, "a process group has something that is no rank");
    }
    g->ranks[i] = (uint32_t)rank;
  }
  return true;
}

// PyTorch describes its groups in JSON, inside the text of a list. Takes what is between the outer
// brackets of the JSON.
static bool groups_read(struct reader *r) {
  const char *text = (const char *)r->values.at, *end = (const char *)r->values.end;
  const char *begin = text ? memmem(text, (size_t)(end - text), "[{", 2) : NULL;
  while (begin && end - begin >= 2 && !(end[-2] == '}' && end[-1] == ']')) {
    end--;
  }
  json_t *list = begin ? json_loadb(begin, (size_t)(end - begin), 0, NULL) : NULL;
  bool ok = json_is_array(list) || refuse_node(r, "its process groups cannot be read");
  for (size_t i = 0; ok && i < json_array_size(list); i++) {
    const json_t *group = json_array_get(list, i);
    ok = group_add(r, json_object_get(group, "pg_name"), json_object_get(group, "ranks"));
  }
  json_decref(list);
  return ok;
}

// ---------------------------------------------------------------------- nodes ---

static bool parent_add(struct reader *r, uint64_t id) {
  struct rondo_schedule_trace *t = r->t;
  if (t->parent_count == MOST_NODES) {
    return refuse_node(r, "the trace has too many dependencies");
  }
  RONDO_SIM_GROW(t->parents, t->parent_count, t->parent_capacity, 1024);
  t->parents[t->parent_count++] = id;
  r->node.parent_count++;
  return true;
}

// Dependencies are packed, or a field each.
static bool parents_read(struct reader *r, const struct rondo_schedule_field *f) {
  struct rondo_schedule_message packed = f->bytes;
  uint64_t id;
  if (f->type == RONDO_SCHEDULE_VARINT) {
    return parent_add(r, f->value);
  }
  while (rondo_schedule_varint_next(&packed, &id)) {
    if (!parent_add(r, id)) {
      return false;
    }
  }
  return !packed.is_broken || refuse_node(r, "its dependencies are broken");
}

// What the node is called with, of its inputs.
static struct rondo_schedule_message values_of(struct rondo_schedule_message inputs) {
  struct rondo_schedule_message values = {0};
  struct rondo_schedule_field f;
  while (rondo_schedule_message_next(&inputs, &f)) {
    if (f.number == IO_VALUES && f.type == RONDO_SCHEDULE_BYTES) {
      values = f.bytes;
    }
  }
  return values;
}

static bool field_take(struct reader *r, const struct rondo_schedule_field *f) {
  struct attribute a;
  bool is_number = f->type == RONDO_SCHEDULE_VARINT, is_bytes = f->type == RONDO_SCHEDULE_BYTES;
  if ((f->number == NODE_CTRL_DEPS || f->number == NODE_DATA_DEPS) && (is_number || is_bytes)) {
    return parents_read(r, f);
  }
  if (f->number == NODE_ATTRIBUTE && is_bytes) {
    return attribute_read(f->bytes, &a) ? attribute_take(r, &a)
                                        : refuse_node(r, "it has a broken attribute");
  }
  if (f->number == NODE_NAME && is_bytes) {
    r->text = f->bytes;
  } else if (f->number == NODE_INPUTS && is_bytes) {
    r->values = values_of(f->bytes);
  } else if (f->number == NODE_ID && is_number) {
    r->node.id = f->value;
  } else if (f->number == NODE_TYPE && is_number) {
    r->node.type =
        f->value < RONDO_SCHEDULE_TRACE_TYPES ? (uint8_t)f->value : RONDO_SCHEDULE_TRACE_TYPES;
  } else if (f->number == NODE_DURATION && is_number) {
    r->node.duration_us = f->value;
  }
  return true;
}

static bool node_check(const struct reader *r) {
  const struct rondo_schedule_trace_node *n = &r->node;
  if (n->type == RONDO_SCHEDULE_TRACE_TYPES) {
    return refuse_node(r, "there is no such type");
  }
  if (n->duration_us > MOST_US) {
    return refuse_node(r, "it takes too long");
  }
  if (n->type == RONDO_SCHEDULE_TRACE_COLLECTIVE && n->kind == RONDO_SCHEDULE_TRACE_UNSAID) {
    return refuse_node(r, "a collective without comm_type");
  }
  return n->type < RONDO_SCHEDULE_TRACE_SEND || n->bytes != RONDO_SCHEDULE_TRACE_UNSAID ||
         refuse_node(r, "a communication without comm_size");
}

static bool node_read(struct reader *r, struct rondo_schedule_message m, uint64_t offset) {
  static const char groups[] = "process_group:init";
  struct rondo_schedule_trace *t = r->t;
  struct rondo_schedule_field f;
  const uint64_t unsaid = RONDO_SCHEDULE_TRACE_UNSAID;
  r->node = (struct rondo_schedule_trace_node){.kind = unsaid,
                                               .bytes = unsaid,
                                               .source = unsaid,
                                               .target = unsaid,
                                               .tag = unsaid,
                                               .first_parent = t->parent_count};
  r->text = r->values = (struct rondo_schedule_message){0};
  while (rondo_schedule_message_next(&m, &f)) {
    if (!field_take(r, &f)) {
      return false;
    }
  }
  if (m.is_broken) {
    return refuse_at(r, offset, "this is no node of a Chakra trace");
  }
  if (!node_check(r)) {
    return false;
  }
  size_t length = rondo_schedule_message_bytes(&r->text);
  if (length && memmem(r->text.at, length, groups, sizeof groups - 1) && !groups_read(r)) {
    return false;
  }
  RONDO_SIM_GROW(t->nodes, t->node_count, t->node_capacity, 1024);
  t->nodes[t->node_count++] = r->node;
  return t->node_count < MOST_NODES || refuse_node(r, "the trace has too many nodes");
}

// ----------------------------------------------------------------------- file ---

// The first message has the version of the schema, or attributes of which one is the version.
static bool metadata_read(struct reader *r, struct rondo_schedule_message m) {
  struct rondo_schedule_field f;
  bool ok = m.at < m.end;
  while (rondo_schedule_message_next(&m, &f)) {
    ok &= f.number <= METADATA_ATTRIBUTE && f.type == RONDO_SCHEDULE_BYTES;
  }
  return (!m.is_broken && ok) ||
         rondo_sim_refuse(r->error, "%.200s: this is no Chakra execution trace", r->name);
}

// The next message of the file, whose length stands before it. Returns false at the end, or if it
// was refused.
static bool message_read(struct reader *r, struct rondo_schedule_message *m, bool *refused) {
  struct rondo_analyse_input *in = r->in;
  uint64_t size = 0, offset = rondo_analyse_input_offset(in);
  (void)rondo_analyse_input_need(in, 10);
  if (in->begin == in->end && !in->error) {
    return false;
  }
  const uint8_t *at = (const uint8_t *)in->data;
  struct rondo_schedule_message head = {at + in->begin, at + in->end, false};
  bool ok = rondo_schedule_varint_next(&head, &size) && size <= MOST_MESSAGE_BYTES;
  if (ok) {
    in->begin = (size_t)(head.at - at);
    ok = rondo_analyse_input_need(in, size);
  }
  if (in->error) {
    *refused = !rondo_sim_refuse(r->error, "%.200s: %s", r->name, strerror(in->error));
    return false;
  }
  if (!ok) {
    *refused = !refuse_at(r, offset,
                          offset ? "the trace is cut off or broken here"
                                 : "this is no Chakra execution trace");
    return false;
  }
  at = (const uint8_t *)in->data + in->begin;
  *m = (struct rondo_schedule_message){at, at + size, false};
  in->begin += size;
  return true;
}

static int nodes_compare(const void *a, const void *b) {
  const struct rondo_schedule_trace_node *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static bool nodes_sort(struct reader *r) {
  struct rondo_schedule_trace *t = r->t;
  if (t->node_count) {
    qsort(t->nodes, t->node_count, sizeof *t->nodes, nodes_compare);
  }
  for (uint32_t i = 1; i < t->node_count; i++) {
    if (t->nodes[i - 1].id == t->nodes[i].id) {
      r->node = t->nodes[i];
      return refuse_node(r, "there are two of this id");
    }
  }
  return true;
}

bool rondo_schedule_trace_read(struct rondo_schedule_trace *t, struct rondo_analyse_input *in,
                               const char *name, struct rondo_analyse_strings *strings,
                               struct rondo_sim_error *error) {
  struct reader r = {.t = t, .in = in, .name = name, .strings = strings, .error = error};
  struct rondo_schedule_message m;
  bool refused = false, ok = true;
  *t = (struct rondo_schedule_trace){0};
  if (!message_read(&r, &m, &refused)) {
    return refused ? false : rondo_sim_refuse(error, "%.200s: the file is empty", name);
  }
  ok = metadata_read(&r, m);
  for (uint64_t offset = rondo_analyse_input_offset(in); ok && message_read(&r, &m, &refused);
       offset = rondo_analyse_input_offset(in)) {
    ok = node_read(&r, m, offset);
  }
  return ok && !refused && nodes_sort(&r);
}

void rondo_schedule_trace_fini(struct rondo_schedule_trace *t) {
  for (uint32_t i = 0; i < t->group_count; i++) {
    free(t->groups[i].ranks);
  }
  free(t->groups);
  free(t->nodes);
  free(t->parents);
}
