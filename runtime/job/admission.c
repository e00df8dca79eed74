#include "runtime/job/admission.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/explore.h"
#include <rondo/status.h>

enum state { WAITS, RESERVED, ADMITTED, REFUSED };

struct newcomer {
  uint64_t who;
  uint8_t state; // enum state
  bool is_gone;  // but reserved or admitted
  bool has_news; // its ADMITTED or REJECTED was not sent
  struct rondo_admitted admitted;
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
};

struct rondo_admission {
  struct newcomer *newcomers; // the oldest first
  uint32_t count, capacity;
};

struct rondo_admission *rondo_admission_create(void) {
  return calloc(1, sizeof(struct rondo_admission));
}

void rondo_admission_destroy(struct rondo_admission *a) {
  if (a)
    free(a->newcomers);
  free(a);
}

static struct newcomer *newcomer_find(const struct rondo_admission *a, uint64_t who) {
  for (uint32_t i = 0; i < a->count; i++)
    if (a->newcomers[i].who == who)
      return &a->newcomers[i];
  return NULL;
}

static struct newcomer *newcomer_add(struct rondo_admission *a, const struct rondo_enter *enter) {
  if (a->count == a->capacity) {
    uint32_t capacity = a->capacity ? 2 * a->capacity : 4;
    struct newcomer *grown = realloc(a->newcomers, capacity * sizeof *grown);
    if (!grown)
      return NULL;
    a->newcomers = grown;
    a->capacity = capacity;
  }
  struct newcomer *n = &a->newcomers[a->count++];
  *n = (struct newcomer){.who = enter->who};
  memcpy(n->text, enter->text, sizeof n->text);
  return n;
}

static void newcomer_remove(struct rondo_admission *a, const struct newcomer *n) {
  uint32_t at = (uint32_t)(n - a->newcomers);
  memmove(&a->newcomers[at], &a->newcomers[at + 1], (--a->count - at) * sizeof *n);
}

static uint32_t newcomers_count(const struct rondo_admission *a, uint8_t state) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < a->count; i++)
    count += a->newcomers[i].state == state;
  return count;
}

uint32_t rondo_admission_pending(const struct rondo_admission *a) {
  return newcomers_count(a, WAITS);
}

// --------------------------------------------------------------------- messages ---

static struct rondo_shared_bytes *join_reject(void) {
  const struct rondo_joined reply = {
      .status = RONDO_ERR_INVALID,
      .text = "its id admits newcomers to a running job: call rondo_join, not rondo_init"};
  return rondo_membership_joined_encode(RONDO_MEMBERSHIP_REJECTED, &reply);
}

static struct rondo_shared_bytes *admission_welcome(const struct rondo_admission *a) {
  struct rondo_joined reply = {.joined_count = rondo_admission_pending(a)};
  (void)snprintf(reply.text, sizeof reply.text, "%u newcomers wait for the vote of the members",
                 reply.joined_count);
  return rondo_membership_joined_encode(RONDO_MEMBERSHIP_JOINED, &reply);
}

// The answer to a newcomer that is admitted or refused.
static struct rondo_shared_bytes *newcomer_answer(const struct newcomer *n) {
  struct rondo_joined reply = {.status = RONDO_ERR_FULL};
  if (n->state == ADMITTED)
    return rondo_membership_admitted_encode(&n->admitted);
  memcpy(reply.text, n->text, sizeof reply.text);
  return rondo_membership_joined_encode(RONDO_MEMBERSHIP_REJECTED, &reply);
}

struct rondo_shared_bytes *rondo_admission_receive(struct rondo_admission *a, const void *bytes,
                                                   size_t size, uint64_t *who) {
  struct rondo_enter enter;
  struct rondo_join join;
  *who = 0;
  if (rondo_membership_join_decode(bytes, size, &join))
    return join_reject();
  if (!rondo_membership_enter_decode(bytes, size, &enter))
    return NULL;
  struct newcomer *n = newcomer_find(a, enter.who);
  if (!n)
    n = newcomer_add(a, &enter);
  if (!n)
    return NULL;
  *who = enter.who;
  n->is_gone = false;
  n->has_news = false;
  return n->state == WAITS || n->state == RESERVED ? admission_welcome(a) : newcomer_answer(n);
}

void rondo_admission_lose(struct rondo_admission *a, uint64_t who) {
  struct newcomer *n = newcomer_find(a, who);
  if (n && (n->state == WAITS || n->state == REFUSED))
    newcomer_remove(a, n);
  else if (n)
    n->is_gone = true;
}

struct rondo_shared_bytes *rondo_admission_news(struct rondo_admission *a, uint64_t who) {
  struct newcomer *n = newcomer_find(a, who);
  if (!n || !n->has_news)
    return NULL;
  struct rondo_shared_bytes *news = newcomer_answer(n);
  n->has_news = !news; // without memory the newcomer asks again
  return news;
}

// ------------------------------------------------------------------------- votes ---

uint32_t rondo_admission_reserve(struct rondo_admission *a, uint32_t fewest, uint32_t most) {
  uint32_t reserved = 0;
  if (rondo_admission_pending(a) < fewest)
    return 0;
  for (uint32_t i = 0; i < a->count && reserved < most; i++) {
    if (a->newcomers[i].state != WAITS)
      continue;
    a->newcomers[i].state = RESERVED;
    reserved++;
  }
  return reserved;
}

void rondo_admission_refuse(struct rondo_admission *a, const char *text) {
  for (uint32_t i = 0; i < a->count; i++) {
    struct newcomer *n = &a->newcomers[i];
    if (n->state != WAITS)
      continue;
    n->state = REFUSED;
    n->has_news = true;
    (void)snprintf(n->text, sizeof n->text, "%s", text);
  }
}

void rondo_admission_admit(struct rondo_admission *a, const struct rondo_admitted *first) {
  struct rondo_admitted next = *first;
  for (uint32_t i = 0; i < a->count; i++) {
    struct newcomer *n = &a->newcomers[i];
    if (n->state != RESERVED)
      continue;
    n->state = ADMITTED;
    n->admitted = next;
    n->has_news = true;
    next.rank++;
  }
}

void rondo_admission_settle(struct rondo_admission *a, enum rondo_admission_end end) {
  uint32_t at = 0;
  for (uint32_t left = a->count; left > 0; left--) {
    struct newcomer n = a->newcomers[at];
    if (n.state == REFUSED) {
      at++;
      continue;
    }
    bool was_chosen = n.state != WAITS;
    n.state = WAITS;
    n.has_news = false;
    a->newcomers[at] = n;
    if (!was_chosen ||
        (end == RONDO_ADMISSION_AGAIN && !n.is_gone && !RONDO_FAULT(NEWCOMERS_FORGOTTEN))) {
      at++;
      continue;
    }
    newcomer_remove(a, &a->newcomers[at]);
    if (end == RONDO_ADMISSION_LATE && !n.is_gone)
      a->newcomers[a->count++] = n;
  }
}

bool rondo_admission_has_lost(const struct rondo_admission *a, char *text) {
  for (uint32_t i = 0; i < a->count; i++) {
    if (!a->newcomers[i].is_gone)
      continue;
    (void)snprintf(text, RONDO_MEMBERSHIP_TEXT_BYTES, "%s", a->newcomers[i].text);
    return true;
  }
  return false;
}
