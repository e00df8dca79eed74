// The newcomers of a running job, as the member that admits them keeps them.
#include "runtime/job/admission.h"
#include "tests/support/named.h"

#define NOBODY UINT32_MAX

static void newcomer_ask(struct rondo_admission *a, uint64_t who) {
  const struct rondo_enter enter = {.who = who, .text = "a newcomer"};
  struct rondo_shared_bytes *ask = rondo_membership_enter_encode(&enter);
  uint64_t heard = 0;
  rondo_shared_bytes_put(rondo_admission_receive(a, ask->bytes, ask->size, &heard));
  assert_int_equal(heard, who);
  rondo_shared_bytes_put(ask);
}

// The rank that a newcomer was admitted as; NOBODY: it was not.
static uint32_t newcomer_rank(struct rondo_admission *a, uint64_t who) {
  struct rondo_admitted admitted;
  struct rondo_shared_bytes *news = rondo_admission_news(a, who);
  if (!news)
    return NOBODY;
  assert_true(rondo_membership_admitted_decode(news->bytes, news->size, &admitted));
  rondo_shared_bytes_put(news);
  return admitted.rank;
}

static void newcomers_are_reserved_at_once_or_not_at_all(void **state) {
  (void)state;
  const struct rondo_admitted first = {.rank = 4, .rank_count = 6};
  struct rondo_admission *a = rondo_admission_create();
  assert_int_equal(rondo_admission_reserve(a, UINT32_MAX), 0);
  for (uint64_t who = 1; who <= 3; who++)
    newcomer_ask(a, who);
  assert_int_equal(rondo_admission_reserve(a, 4), 0);
  assert_int_equal(rondo_admission_pending(a), 3);
  rondo_admission_lose(a, 2);
  assert_int_equal(rondo_admission_reserve(a, UINT32_MAX), 2);
  assert_int_equal(rondo_admission_pending(a), 0);
  rondo_admission_admit(a, &first);
  assert_int_equal(newcomer_rank(a, 1), 4);
  assert_int_equal(newcomer_rank(a, 3), 5);
  rondo_admission_settle(a, RONDO_ADMISSION_JOINED);
  assert_int_equal(rondo_admission_reserve(a, UINT32_MAX), 0);
  rondo_admission_destroy(a);
}

// Those admitted in vain wait again: as the first, or as the last if they did not come in time.
static void newcomers_that_do_not_come_in_time_wait_behind_all_others(void **state) {
  (void)state;
  const struct rondo_admitted first = {.rank = 1, .rank_count = 2};
  struct rondo_admission *a = rondo_admission_create();
  for (uint64_t who = 1; who <= 3; who++)
    newcomer_ask(a, who);
  assert_int_equal(rondo_admission_reserve(a, 1), 1);
  rondo_admission_settle(a, RONDO_ADMISSION_AGAIN);
  assert_int_equal(rondo_admission_reserve(a, 1), 1);
  rondo_admission_admit(a, &first);
  assert_int_equal(newcomer_rank(a, 1), 1);
  rondo_admission_settle(a, RONDO_ADMISSION_LATE);
  assert_int_equal(rondo_admission_pending(a), 3);
  assert_int_equal(rondo_admission_reserve(a, 2), 2);
  rondo_admission_admit(a, &first);
  assert_int_equal(newcomer_rank(a, 1), NOBODY);
  assert_int_equal(newcomer_rank(a, 2), 1);
  rondo_admission_lose(a, 2);
  rondo_admission_settle(a, RONDO_ADMISSION_LATE);
  assert_int_equal(rondo_admission_pending(a), 2);
  rondo_admission_destroy(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("admission", newcomers_are_reserved_at_once_or_not_at_all),
      RONDO_NAMED_TEST("admission", newcomers_that_do_not_come_in_time_wait_behind_all_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
