#include "tests/support/ptx/ptx_hooks.h"

#include <string.h>

static _Thread_local struct {
  struct ptx_memory *memory; // NULL outside of enter and leave
  uint32_t agent;
  const char *name;
  struct ptx_hooks_events events;
} hooks;

// The first byte of the program in memory.
extern const char __executable_start[];

void ptx_hooks_enter(struct ptx_memory *m, uint32_t agent, const char *name,
                     const struct ptx_hooks_events *events) {
  hooks.events = events ? *events : (struct ptx_hooks_events){NULL, NULL};
  hooks.memory = m;
  hooks.agent = agent;
  hooks.name = name;
}

void ptx_hooks_leave(void) { hooks.memory = NULL; }

static bool hooks_have(const volatile void *at, uint64_t bytes) {
  return hooks.memory && ptx_memory_has_range(hooks.memory, (uint64_t)(uintptr_t)at, bytes);
}

static bool hooks_have_atomic(const volatile void *at, uint64_t bytes) {
  if (!hooks.memory)
    return false;
  if (hooks.events.point)
    hooks.events.point();
  if (hooks_have(at, bytes))
    return true;
  if (hooks.events.meet)
    hooks.events.meet((const void *)(uintptr_t)at);
  return false;
}

static struct ptx_where hooks_where(const void *caller) {
  return (struct ptx_where){.kernel = hooks.name,
                            .text_line = (uint32_t)((const char *)caller - __executable_start)};
}

static struct ptx_access access_at(uint64_t address, uint32_t bytes, enum ptx_order order) {
  return (struct ptx_access){.address = address, .bytes = bytes, .order = order, .scope = PTX_SYS};
}

// Plain accesses may have any size and alignment. They go to the memory in aligned pieces.
static uint32_t piece_at(uint64_t address, uint64_t bytes) {
  uint32_t piece = 16;
  while (address % piece || piece > bytes)
    piece /= 2;
  return piece;
}

static void hooks_read(const void *at, uint64_t bytes, const void *caller) {
  if (!hooks_have(at, bytes))
    return;
  struct ptx_where where = hooks_where(caller);
  for (uint64_t address = (uint64_t)(uintptr_t)at, end = address + bytes; address < end;) {
    struct ptx_access a = access_at(address, piece_at(address, end - address), PTX_WEAK);
    uint8_t unused[16];
    ptx_memory_load(hooks.memory, hooks.agent, 0, &a, unused, &where);
    address += a.bytes;
  }
}

static void hooks_write(const void *at, uint64_t bytes, const void *caller) {
  if (!hooks_have(at, bytes))
    return;
  struct ptx_where where = hooks_where(caller);
  for (uint64_t address = (uint64_t)(uintptr_t)at, end = address + bytes; address < end;) {
    struct ptx_access a = access_at(address, piece_at(address, end - address), PTX_WEAK);
    ptx_memory_note_store(hooks.memory, hooks.agent, 0, &a, &where);
    address += a.bytes;
  }
}

// The orders as the hooks get them are those of __ATOMIC_RELAXED to __ATOMIC_SEQ_CST.
static enum ptx_order order_of(int order) {
  static const enum ptx_order orders[] = {PTX_RELAXED, PTX_ACQUIRE, PTX_ACQUIRE,
                                          PTX_RELEASE, PTX_ACQ_REL, PTX_SC};
  return order >= 0 && order < 6 ? orders[order] : PTX_SC;
}

static uint64_t hooks_load(const volatile void *at, uint32_t bytes, int order, const void *caller) {
  struct ptx_where where = hooks_where(caller);
  struct ptx_access a = access_at((uint64_t)(uintptr_t)at, bytes, order_of(order));
  uint64_t value = 0;
  ptx_memory_load(hooks.memory, hooks.agent, 0, &a, &value, &where);
  return value;
}

static void hooks_store(volatile void *at, uint32_t bytes, uint64_t value, int order,
                        const void *caller) {
  struct ptx_where where = hooks_where(caller);
  struct ptx_access a = access_at((uint64_t)(uintptr_t)at, bytes, order_of(order));
  ptx_memory_store(hooks.memory, hooks.agent, 0, &a, &value, &where);
}

enum update_kind {
  EXCHANGE,
  FETCH_ADD,
  FETCH_SUB,
  FETCH_AND,
  FETCH_OR,
  FETCH_XOR,
  FETCH_NAND,
  COMPARE
};

struct update {
  enum update_kind kind;
  uint32_t bytes;
  uint64_t operand, expected, found;
};

static bool update_apply(void *arg, void *value) {
  struct update *u = arg;
  uint64_t mask = u->bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * u->bytes) - 1, now = 0;
  memcpy(&now, value, u->bytes);
  u->found = now;
  switch (u->kind) {
  case COMPARE:
    if (now != (u->expected & mask))
      return false;
    now = u->operand;
    break;
  case EXCHANGE:
    now = u->operand;
    break;
  case FETCH_ADD:
    now += u->operand;
    break;
  case FETCH_SUB:
    now -= u->operand;
    break;
  case FETCH_AND:
    now &= u->operand;
    break;
  case FETCH_OR:
    now |= u->operand;
    break;
  case FETCH_XOR:
    now ^= u->operand;
    break;
  case FETCH_NAND:
    now = ~(now & u->operand);
    break;
  }
  memcpy(value, &now, u->bytes);
  return true;
}

static uint64_t hooks_update(volatile void *at, struct update *u, int order, int failure,
                             const void *caller) {
  struct ptx_where where = hooks_where(caller);
  struct ptx_access a = access_at((uint64_t)(uintptr_t)at, u->bytes, order_of(order));
  a.order_of_failure = order_of(failure);
  struct ptx_update update = {update_apply, u};
  ptx_memory_update(hooks.memory, hooks.agent, 0, &a, &update, &where);
  return u->found;
}

// The functions that instrumented code calls. Their names and types are the compilers'; a type in a
// macro takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses, readability-identifier-naming)
#define CALLER __builtin_return_address(0)

#define HOOKS_PLAIN(name, bytes)                                                                   \
  void __tsan_read##name(void *at);                                                                \
  void __tsan_read##name(void *at) { hooks_read(at, bytes, CALLER); }                              \
  void __tsan_write##name(void *at);                                                               \
  void __tsan_write##name(void *at) { hooks_write(at, bytes, CALLER); }                            \
  void __tsan_unaligned_read##name(void *at);                                                      \
  void __tsan_unaligned_read##name(void *at) { hooks_read(at, bytes, CALLER); }                    \
  void __tsan_unaligned_write##name(void *at);                                                     \
  void __tsan_unaligned_write##name(void *at) { hooks_write(at, bytes, CALLER); }
HOOKS_PLAIN(1, 1)
HOOKS_PLAIN(2, 2)
HOOKS_PLAIN(4, 4)
HOOKS_PLAIN(8, 8)
HOOKS_PLAIN(16, 16)

void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_read_range(void *at, unsigned long bytes) { hooks_read(at, bytes, CALLER); }
void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes) { hooks_write(at, bytes, CALLER); }

void *__tsan_memcpy(void *to, const void *from, unsigned long bytes);
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes) {
  hooks_read(from, bytes, CALLER);
  hooks_write(to, bytes, CALLER);
  return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, unsigned long bytes);
void *__tsan_memmove(void *to, const void *from, unsigned long bytes) {
  hooks_read(from, bytes, CALLER);
  hooks_write(to, bytes, CALLER);
  return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, unsigned long bytes);
void *__tsan_memset(void *to, int value, unsigned long bytes) {
  hooks_write(to, bytes, CALLER);
  return memset(to, value, bytes);
}

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

#define HOOKS_FETCH(bits, type, name, kind)                                                        \
  type __tsan_atomic##bits##_##name(volatile type *at, type value, int order);                     \
  type __tsan_atomic##bits##_##name(volatile type *at, type value, int order) {                    \
    if (!hooks_have_atomic(at, sizeof *at))                                                        \
      return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                                         \
    struct update u = {kind, sizeof *at, (uint64_t)value, 0, 0};                                   \
    return (type)hooks_update(at, &u, order, __ATOMIC_RELAXED, CALLER);                            \
  }

#define HOOKS_COMPARE(bits, type)                                                                  \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type value,    \
                                                  int order, int failure);                         \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type value,    \
                                                  int order, int failure) {                        \
    if (!hooks_have_atomic(at, sizeof *at)) {                                                      \
      __atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
      return expected;                                                                             \
    }                                                                                              \
    struct update u = {COMPARE, sizeof *at, (uint64_t)value, (uint64_t)expected, 0};               \
    return (type)hooks_update(at, &u, order, failure, CALLER);                                     \
  }

#define HOOKS_COMPARE_SWAP(bits, type, name)                                                       \
  int __tsan_atomic##bits##_##name(volatile type *at, type *expected, type value, int order,       \
                                   int failure);                                                   \
  int __tsan_atomic##bits##_##name(volatile type *at, type *expected, type value, int order,       \
                                   int failure) {                                                  \
    type found = __tsan_atomic##bits##_compare_exchange_val(at, *expected, value, order, failure); \
    bool is_equal = found == *expected;                                                            \
    *expected = found;                                                                             \
    return is_equal;                                                                               \
  }

#define HOOKS_ATOMIC(bits, type)                                                                   \
  type __tsan_atomic##bits##_load(const volatile type *at, int order);                             \
  type __tsan_atomic##bits##_load(const volatile type *at, int order) {                            \
    if (!hooks_have_atomic(at, sizeof *at))                                                        \
      return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                \
    return (type)hooks_load(at, sizeof *at, order, CALLER);                                        \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile type *at, type value, int order);                      \
  void __tsan_atomic##bits##_store(volatile type *at, type value, int order) {                     \
    if (hooks_have_atomic(at, sizeof *at))                                                         \
      hooks_store(at, sizeof *at, (uint64_t)value, order, CALLER);                                 \
    else                                                                                           \
      __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                               \
  }                                                                                                \
  type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order);                   \
  type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order) {                  \
    if (!hooks_have_atomic(at, sizeof *at))                                                        \
      return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                     \
    struct update u = {EXCHANGE, sizeof *at, (uint64_t)value, 0, 0};                               \
    return (type)hooks_update(at, &u, order, __ATOMIC_RELAXED, CALLER);                            \
  }                                                                                                \
  HOOKS_FETCH(bits, type, fetch_add, FETCH_ADD)                                                    \
  HOOKS_FETCH(bits, type, fetch_sub, FETCH_SUB)                                                    \
  HOOKS_FETCH(bits, type, fetch_and, FETCH_AND)                                                    \
  HOOKS_FETCH(bits, type, fetch_or, FETCH_OR)                                                      \
  HOOKS_FETCH(bits, type, fetch_xor, FETCH_XOR)                                                    \
  HOOKS_FETCH(bits, type, fetch_nand, FETCH_NAND)                                                  \
  HOOKS_COMPARE(bits, type)                                                                        \
  HOOKS_COMPARE_SWAP(bits, type, compare_exchange_strong)                                          \
  HOOKS_COMPARE_SWAP(bits, type, compare_exchange_weak)
HOOKS_ATOMIC(8, uint8_t)
HOOKS_ATOMIC(16, uint16_t)
HOOKS_ATOMIC(32, uint32_t)
HOOKS_ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) {
  if (!hooks.memory) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return;
  }
  if (order != __ATOMIC_RELAXED)
    ptx_memory_fence(hooks.memory, hooks.agent, 0, order_of(order), PTX_SYS);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }
// NOLINTEND(bugprone-macro-parentheses, readability-identifier-naming)
