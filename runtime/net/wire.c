#include <stdlib.h>
#include <string.h>

#include "runtime/net/wire.h"

// Flags in the first byte of a member.
#define ASKS_WINDOW 1u
#define SAME_MACHINE 2u // shares its machine's fields with the member before it

static const uint8_t magic[4] = {'R', 'n', 'd', 'o'};

// ---------------------------------------------------------------- writing ----

void rondo_wire_put(struct rondo_wire_writer *w, const void *bytes, size_t size) {
  if (w->full || size > w->capacity - w->size) {
    w->full = 1;
    return;
  }
  if (size)
    memcpy(w->bytes + w->size, bytes, size);
  w->size += size;
}

static void wire_put_number(struct rondo_wire_writer *w, uint64_t value, size_t bytes) {
  uint8_t text[8];
  for (size_t i = 0; i < bytes; i++)
    text[i] = (uint8_t)(value >> (8 * i));
  rondo_wire_put(w, text, bytes);
}

void rondo_wire_put_u8(struct rondo_wire_writer *w, uint8_t value) { wire_put_number(w, value, 1); }
void rondo_wire_put_u16(struct rondo_wire_writer *w, uint16_t value) {
  wire_put_number(w, value, 2);
}
void rondo_wire_put_u32(struct rondo_wire_writer *w, uint32_t value) {
  wire_put_number(w, value, 4);
}
void rondo_wire_put_u64(struct rondo_wire_writer *w, uint64_t value) {
  wire_put_number(w, value, 8);
}

void rondo_wire_put_text(struct rondo_wire_writer *w, const char *text) {
  size_t size = strnlen(text, RONDO_WIRE_TEXT_BYTES);
  rondo_wire_put_u8(w, (uint8_t)size);
  rondo_wire_put(w, text, size);
}

void rondo_wire_put_ranks(struct rondo_wire_writer *w, const uint32_t *ranks, uint32_t count) {
  rondo_wire_put_u32(w, count);
  for (uint32_t i = 0; i < count; i++)
    rondo_wire_put_u32(w, ranks[i]);
}

static size_t address_size(uint8_t family) { return family == 6 ? 16 : 4; }

void rondo_wire_put_address(struct rondo_wire_writer *w, const struct rondo_wire_address *a) {
  rondo_wire_put_u8(w, a->family);
  rondo_wire_put_u16(w, a->port);
  rondo_wire_put(w, a->bytes, address_size(a->family));
}

void rondo_wire_put_hello(struct rondo_wire_writer *w, const struct rondo_wire_hello *hello) {
  rondo_wire_put(w, hello->tag, sizeof hello->tag);
  rondo_wire_put_u8(w, hello->purpose);
  rondo_wire_put_u32(w, hello->from);
  rondo_wire_put_u32(w, hello->to);
  rondo_wire_put(w, hello->nonce, sizeof hello->nonce);
  rondo_wire_put(w, hello->key, sizeof hello->key);
}

#define NO_NODE UINT16_MAX

static void wire_put_node(struct rondo_wire_writer *w, int16_t node) {
  rondo_wire_put_u16(w, node < 0 ? NO_NODE : (uint16_t)node);
}

void rondo_wire_put_place(struct rondo_wire_writer *w, const struct rondo_topology_place *p) {
  rondo_wire_put_u8(w, p->is_gpu);
  wire_put_node(w, p->node);
  if (!p->is_gpu)
    return;
  rondo_wire_put_u64(w, p->pci);
  rondo_wire_put_u8(w, p->links);
}

static void wire_put_interface(struct rondo_wire_writer *w,
                               const struct rondo_topology_interface *i) {
  rondo_wire_put_text(w, i->name);
  rondo_wire_put_u8(w, i->is_rdma);
  wire_put_node(w, i->node);
  rondo_wire_put_u32(w, i->mbit);
}

// True if only the fields that each process has of its own differ. Unused bytes are zero.
static bool member_shares_machine(const struct rondo_wire_member *a,
                                  const struct rondo_wire_member *b) {
  bool same = memcmp(a->machine, b->machine, sizeof a->machine) == 0 &&
              a->pid_namespace == b->pid_namespace && a->user_namespace == b->user_namespace &&
              a->uid == b->uid && strcmp(a->host, b->host) == 0 &&
              a->address_count == b->address_count && a->interface_count == b->interface_count &&
              memcmp(a->interfaces, b->interfaces, a->interface_count * sizeof *a->interfaces) == 0;
  for (uint32_t i = 0; i < a->address_count && same; i++)
    same = a->addresses[i].family == b->addresses[i].family &&
           memcmp(a->addresses[i].bytes, b->addresses[i].bytes, sizeof a->addresses[i].bytes) == 0;
  return same;
}

static void member_put_machine(struct rondo_wire_writer *w, const struct rondo_wire_member *m) {
  rondo_wire_put_u64(w, m->machine[0]);
  rondo_wire_put_u64(w, m->machine[1]);
  rondo_wire_put_u64(w, m->pid_namespace);
  rondo_wire_put_u64(w, m->user_namespace);
  rondo_wire_put_u32(w, m->uid);
  rondo_wire_put_text(w, m->host);
  rondo_wire_put_u8(w, (uint8_t)m->address_count);
  for (uint32_t i = 0; i < m->address_count; i++)
    rondo_wire_put_address(w, &m->addresses[i]);
  rondo_wire_put_u8(w, (uint8_t)m->interface_count);
  for (uint32_t i = 0; i < m->interface_count; i++)
    wire_put_interface(w, &m->interfaces[i]);
}

// The cores, without the words after the last core.
static void wire_put_cores(struct rondo_wire_writer *w, const uint64_t *cores) {
  uint32_t count = RONDO_TOPOLOGY_CORE_WORDS;
  while (count && !cores[count - 1])
    count--;
  rondo_wire_put_u8(w, (uint8_t)count);
  for (uint32_t i = 0; i < count; i++)
    rondo_wire_put_u64(w, cores[i]);
}

void rondo_wire_put_member(struct rondo_wire_writer *w, const struct rondo_wire_member *m,
                           const struct rondo_wire_member *before) {
  bool is_same = before && member_shares_machine(m, before);
  rondo_wire_put_u8(w,
                    (uint8_t)((m->asks_window ? ASKS_WINDOW : 0) | (is_same ? SAME_MACHINE : 0)));
  if (!is_same)
    member_put_machine(w, m);
  for (uint32_t i = 0; i < m->address_count && is_same; i++)
    rondo_wire_put_u16(w, m->addresses[i].port);
  rondo_wire_put_u32(w, m->pid);
  rondo_wire_put_text(w, m->local);
  rondo_wire_put(w, m->key, sizeof m->key);
  wire_put_cores(w, m->cores);
  rondo_wire_put_ranks(w, m->ranks, m->rank_count);
  for (uint32_t i = 0; i < m->rank_count; i++)
    rondo_wire_put_place(w, &m->places[i]);
}

void rondo_wire_head_write(uint8_t *bytes, const struct rondo_wire_head *head) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = RONDO_WIRE_HEAD_BYTES};
  rondo_wire_put(&w, magic, sizeof magic);
  rondo_wire_put_u8(&w, head->version);
  rondo_wire_put_u8(&w, head->type);
  rondo_wire_put_u8(&w, head->fd_count);
  rondo_wire_put_u8(&w, 0);
  rondo_wire_put_u32(&w, head->size);
  rondo_wire_put_u32(&w, head->subtype);
}

// ---------------------------------------------------------------- reading ----

struct rondo_wire_reader rondo_wire_read(const struct rondo_wire_frame *frame) {
  struct rondo_wire_reader r = {frame->payload, frame->head.size, 0};
  return r;
}

void rondo_wire_get(struct rondo_wire_reader *r, void *bytes, size_t size) {
  if (r->bad || size > r->size) {
    r->bad = 1;
    memset(bytes, 0, size);
    return;
  }
  if (size)
    memcpy(bytes, r->bytes, size);
  r->bytes += size;
  r->size -= size;
}

static uint64_t wire_get_number(struct rondo_wire_reader *r, size_t bytes) {
  uint8_t text[8] = {0};
  uint64_t value = 0;
  rondo_wire_get(r, text, bytes);
  for (size_t i = 0; i < bytes; i++)
    value |= (uint64_t)text[i] << (8 * i);
  return value;
}

uint8_t rondo_wire_get_u8(struct rondo_wire_reader *r) { return (uint8_t)wire_get_number(r, 1); }
uint16_t rondo_wire_get_u16(struct rondo_wire_reader *r) { return (uint16_t)wire_get_number(r, 2); }
uint32_t rondo_wire_get_u32(struct rondo_wire_reader *r) { return (uint32_t)wire_get_number(r, 4); }
uint64_t rondo_wire_get_u64(struct rondo_wire_reader *r) { return wire_get_number(r, 8); }

void rondo_wire_get_text(struct rondo_wire_reader *r, char *text, size_t capacity) {
  size_t size = rondo_wire_get_u8(r);
  text[0] = '\0';
  if (size >= capacity) {
    r->bad = 1;
    return;
  }
  rondo_wire_get(r, text, size);
  text[size] = '\0';
  // The text goes to the log, so control characters and line ends are refused.
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)text[i] < ' ' || text[i] == 127)
      r->bad = 1;
  if (r->bad)
    text[0] = '\0';
}

uint32_t rondo_wire_get_ranks(struct rondo_wire_reader *r, uint32_t **ranks) {
  uint32_t count = rondo_wire_get_u32(r);
  *ranks = NULL;
  if (count > RONDO_MAX_RANKS || count > r->size / sizeof **ranks)
    r->bad = 1;
  if (r->bad || count == 0)
    return 0;
  *ranks = malloc(count * sizeof **ranks);
  if (!*ranks)
    r->bad = 1;
  for (uint32_t i = 0; i < count && !r->bad; i++) {
    (*ranks)[i] = rondo_wire_get_u32(r);
    if ((*ranks)[i] >= RONDO_MAX_RANKS || (i && (*ranks)[i] <= (*ranks)[i - 1]))
      r->bad = 1;
  }
  if (!r->bad)
    return count;
  free(*ranks);
  *ranks = NULL;
  return 0;
}

void rondo_wire_get_address(struct rondo_wire_reader *r, struct rondo_wire_address *a) {
  memset(a, 0, sizeof *a);
  a->family = rondo_wire_get_u8(r);
  a->port = rondo_wire_get_u16(r);
  if ((a->family != 4 && a->family != 6) || a->port == 0)
    r->bad = 1;
  rondo_wire_get(r, a->bytes, address_size(a->family));
}

void rondo_wire_get_hello(struct rondo_wire_reader *r, struct rondo_wire_hello *hello) {
  rondo_wire_get(r, hello->tag, sizeof hello->tag);
  hello->purpose = rondo_wire_get_u8(r);
  hello->from = rondo_wire_get_u32(r);
  hello->to = rondo_wire_get_u32(r);
  rondo_wire_get(r, hello->nonce, sizeof hello->nonce);
  rondo_wire_get(r, hello->key, sizeof hello->key);
}

static int16_t wire_get_node(struct rondo_wire_reader *r) {
  uint16_t node = rondo_wire_get_u16(r);
  if (node > INT16_MAX && node != NO_NODE)
    r->bad = 1;
  return node == NO_NODE ? -1 : (int16_t)node;
}

static uint8_t wire_get_flag(struct rondo_wire_reader *r) {
  uint8_t flag = rondo_wire_get_u8(r);
  r->bad |= flag > 1;
  return flag;
}

void rondo_wire_get_place(struct rondo_wire_reader *r, struct rondo_topology_place *p) {
  memset(p, 0, sizeof *p);
  p->is_gpu = wire_get_flag(r);
  p->node = wire_get_node(r);
  if (!p->is_gpu)
    return;
  p->pci = rondo_wire_get_u64(r);
  p->links = rondo_wire_get_u8(r);
}

static void wire_get_interface(struct rondo_wire_reader *r, struct rondo_topology_interface *i) {
  memset(i, 0, sizeof *i);
  rondo_wire_get_text(r, i->name, sizeof i->name);
  i->is_rdma = wire_get_flag(r);
  i->node = wire_get_node(r);
  i->mbit = rondo_wire_get_u32(r);
}

static void member_get_machine(struct rondo_wire_reader *r, struct rondo_wire_member *m) {
  m->machine[0] = rondo_wire_get_u64(r);
  m->machine[1] = rondo_wire_get_u64(r);
  m->pid_namespace = rondo_wire_get_u64(r);
  m->user_namespace = rondo_wire_get_u64(r);
  m->uid = rondo_wire_get_u32(r);
  rondo_wire_get_text(r, m->host, sizeof m->host);
  m->address_count = rondo_wire_get_u8(r);
  if (m->address_count > RONDO_TOPOLOGY_ADDRESSES)
    r->bad = 1;
  for (uint32_t i = 0; i < m->address_count && !r->bad; i++)
    rondo_wire_get_address(r, &m->addresses[i]);
  m->interface_count = rondo_wire_get_u8(r);
  if (m->interface_count > RONDO_TOPOLOGY_INTERFACES)
    r->bad = 1;
  for (uint32_t i = 0; i < m->interface_count && !r->bad; i++)
    wire_get_interface(r, &m->interfaces[i]);
}

static void wire_get_cores(struct rondo_wire_reader *r, uint64_t *cores) {
  uint32_t count = rondo_wire_get_u8(r);
  memset(cores, 0, RONDO_TOPOLOGY_CORE_WORDS * sizeof *cores);
  r->bad |= count > RONDO_TOPOLOGY_CORE_WORDS;
  for (uint32_t i = 0; i < count && !r->bad; i++)
    cores[i] = rondo_wire_get_u64(r);
  r->bad |= !r->bad && count && !cores[count - 1]; // such a word is left out
}

// Reads the places of the ranks.
static void member_get_places(struct rondo_wire_reader *r, struct rondo_wire_member *m) {
  if (r->bad || !m->rank_count)
    return;
  m->places = malloc(m->rank_count * sizeof *m->places);
  r->bad |= !m->places;
  for (uint32_t i = 0; i < m->rank_count && !r->bad; i++)
    rondo_wire_get_place(r, &m->places[i]);
}

void rondo_wire_get_member(struct rondo_wire_reader *r, struct rondo_wire_member *m,
                           const struct rondo_wire_member *before) {
  memset(m, 0, sizeof *m);
  uint32_t flags = rondo_wire_get_u8(r);
  if (flags > (ASKS_WINDOW | SAME_MACHINE) || ((flags & SAME_MACHINE) && !before))
    r->bad = 1;
  if (!(flags & SAME_MACHINE))
    member_get_machine(r, m);
  else if (!r->bad)
    *m = *before;
  m->ranks = NULL;
  m->places = NULL;
  m->asks_window = (flags & ASKS_WINDOW) != 0;
  for (uint32_t i = 0; i < m->address_count && (flags & SAME_MACHINE) && !r->bad; i++) {
    m->addresses[i].port = rondo_wire_get_u16(r);
    r->bad |= m->addresses[i].port == 0;
  }
  m->pid = rondo_wire_get_u32(r);
  rondo_wire_get_text(r, m->local, sizeof m->local);
  rondo_wire_get(r, m->key, sizeof m->key);
  wire_get_cores(r, m->cores);
  m->rank_count = rondo_wire_get_ranks(r, &m->ranks);
  member_get_places(r, m);
}

bool rondo_wire_member_try_insert(struct rondo_wire_member *m, uint32_t rank,
                                  const struct rondo_topology_place *place) {
  size_t count = m->rank_count + 1;
  uint32_t *ranks = realloc(m->ranks, count * sizeof *ranks);
  m->ranks = ranks ? ranks : m->ranks;
  struct rondo_topology_place *places = realloc(m->places, count * sizeof *places);
  m->places = places ? places : m->places;
  if (!ranks || !places)
    return false;
  uint32_t at = m->rank_count++;
  for (; at && ranks[at - 1] > rank; at--) {
    ranks[at] = ranks[at - 1];
    places[at] = places[at - 1];
  }
  ranks[at] = rank;
  places[at] = *place;
  return true;
}

void rondo_wire_member_fini(struct rondo_wire_member *m) {
  free(m->ranks);
  free(m->places);
  m->ranks = NULL;
  m->places = NULL;
  m->rank_count = 0;
}

bool rondo_wire_is_done(const struct rondo_wire_reader *r) { return !r->bad && r->size == 0; }

// Only messages carry descriptors.
static bool head_is_valid(const struct rondo_wire_head *h, bool is_authenticated) {
  if (!is_authenticated)
    return h->type >= RONDO_WIRE_HELLO && h->type <= RONDO_WIRE_REFUSAL && !h->fd_count &&
           !h->subtype && h->size <= RONDO_WIRE_UNAUTHENTICATED_BYTES;
  if (h->type != RONDO_WIRE_MESSAGE && (h->fd_count || h->subtype))
    return false;
  return h->type >= RONDO_WIRE_MEMBERSHIP && h->type <= RONDO_WIRE_CLOSED &&
         h->fd_count <= RONDO_WIRE_FDS && h->size <= RONDO_WIRE_AUTHENTICATED_BYTES;
}

int rondo_wire_head_read(const uint8_t *bytes, size_t size, bool is_authenticated,
                         struct rondo_wire_head *head) {
  // Refuse garbage at its first wrong byte.
  size_t seen = size < sizeof magic ? size : sizeof magic;
  if (seen && memcmp(bytes, magic, seen) != 0)
    return -RONDO_WIRE_REFUSE_GARBAGE;
  // Magic and version have the same place in all versions.
  if (size > sizeof magic && bytes[sizeof magic] != RONDO_WIRE_VERSION)
    return -RONDO_WIRE_REFUSE_VERSION;
  if (size < RONDO_WIRE_HEAD_BYTES)
    return 0;
  struct rondo_wire_reader r = {bytes + sizeof magic, RONDO_WIRE_HEAD_BYTES - sizeof magic, 0};
  head->version = rondo_wire_get_u8(&r);
  head->type = rondo_wire_get_u8(&r);
  head->fd_count = rondo_wire_get_u8(&r);
  uint8_t zero = rondo_wire_get_u8(&r);
  head->size = rondo_wire_get_u32(&r);
  head->subtype = rondo_wire_get_u32(&r);
  return zero == 0 && head_is_valid(head, is_authenticated) ? 1 : -RONDO_WIRE_REFUSE_GARBAGE;
}
