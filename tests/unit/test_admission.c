// The newcomers of a running job, as the member that admits them keeps them, and how the ballots of
// the members are counted.
#include <rondo/elastic.h>

#include "runtime/job/admission.h"
#include "runtime/job/ballot.h"
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
  assert_int_equal(rondo_admission_reserve(a, 0, UINT32_MAX), 0);
  for (uint64_t who = 1; who <= 3; who++)
    newcomer_ask(a, who);
  assert_int_equal(rondo_admission_reserve(a, 4, 4), 0);
  assert_int_equal(rondo_admission_pending(a), 3);
  rondo_admission_lose(a, 2);
  assert_int_equal(rondo_admission_reserve(a, 0, UINT32_MAX), 2);
  assert_int_equal(rondo_admission_pending(a), 0);
  rondo_admission_admit(a, &first);
  assert_int_equal(newcomer_rank(a, 1), 4);
  assert_int_equal(newcomer_rank(a, 3), 5);
  rondo_admission_settle(a, RONDO_ADMISSION_JOINED);
  assert_int_equal(rondo_admission_reserve(a, 0, UINT32_MAX), 0);
  rondo_admission_destroy(a);
}

// Those admitted in vain wait again: as the first, or as the last if they did not come in time.
static void newcomers_that_do_not_come_in_time_wait_behind_all_others(void **state) {
  (void)state;
  const struct rondo_admitted first = {.rank = 1, .rank_count = 2};
  struct rondo_admission *a = rondo_admission_create();
  for (uint64_t who = 1; who <= 3; who++)
    newcomer_ask(a, who);
  assert_int_equal(rondo_admission_reserve(a, 1, 1), 1);
  rondo_admission_settle(a, RONDO_ADMISSION_AGAIN);
  assert_int_equal(rondo_admission_reserve(a, 1, 1), 1);
  rondo_admission_admit(a, &first);
  assert_int_equal(newcomer_rank(a, 1), 1);
  rondo_admission_settle(a, RONDO_ADMISSION_LATE);
  assert_int_equal(rondo_admission_pending(a), 3);
  assert_int_equal(rondo_admission_reserve(a, 2, 2), 2);
  rondo_admission_admit(a, &first);
  assert_int_equal(newcomer_rank(a, 1), NOBODY);
  assert_int_equal(newcomer_rank(a, 2), 1);
  rondo_admission_lose(a, 2);
  rondo_admission_settle(a, RONDO_ADMISSION_LATE);
  assert_int_equal(rondo_admission_pending(a), 2);
  rondo_admission_destroy(a);
}

// Writes the reason for which a newcomer is refused to `text`; "" if it is not.
static void reply_read(struct rondo_shared_bytes *reply, char *text) {
  struct rondo_joined joined = {0};
  assert_non_null(reply);
  bool is_read = rondo_membership_joined_decode(reply->bytes, reply->size, &joined);
  bool is_rejected = is_read && reply->bytes[0] == RONDO_MEMBERSHIP_REJECTED;
  assert_int_equal(is_rejected ? joined.status : RONDO_ERR_FULL, RONDO_ERR_FULL);
  (void)snprintf(text, RONDO_MEMBERSHIP_TEXT_BYTES, "%s", is_rejected ? joined.text : "");
  rondo_shared_bytes_put(reply);
}

static void newcomers_without_room_are_refused_until_they_are_gone(void **state) {
  (void)state;
  const struct rondo_enter enter = {.who = 2, .text = "a newcomer"};
  struct rondo_shared_bytes *ask = rondo_membership_enter_encode(&enter);
  struct rondo_admission *a = rondo_admission_create();
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  uint64_t who = 0;
  for (uint64_t i = 1; i <= 3; i++)
    newcomer_ask(a, i);
  assert_int_equal(rondo_admission_reserve(a, 4, 9), 0);
  assert_int_equal(rondo_admission_reserve(a, 1, 1), 1);
  rondo_admission_refuse(a, "the job is full");
  assert_int_equal(rondo_admission_pending(a), 0);
  assert_null(rondo_admission_news(a, 1)); // it is reserved
  reply_read(rondo_admission_news(a, 2), text);
  assert_string_equal(text, "the job is full");
  assert_null(rondo_admission_news(a, 2)); // it knows
  rondo_admission_settle(a, RONDO_ADMISSION_AGAIN);
  assert_int_equal(rondo_admission_pending(a), 1);
  reply_read(rondo_admission_receive(a, ask->bytes, ask->size, &who), text);
  assert_string_equal(text, "the job is full");
  assert_int_equal(who, 2);
  rondo_admission_lose(a, 2);
  reply_read(rondo_admission_receive(a, ask->bytes, ask->size, &who), text);
  assert_string_equal(text, "");
  assert_int_equal(rondo_admission_pending(a), 2);
  rondo_shared_bytes_put(ask);
  rondo_admission_destroy(a);
}

// Counts the ballots of three members that ask for the same, except that the last one is configured
// with `other_least`.
static int vote_count(struct rondo_ballot ballot, uint32_t other_least, char *why) {
  const uint32_t ranks[3] = {0, 2, 5};
  uint8_t ballots[3][RONDO_BALLOT_BYTES];
  uint32_t keeper = 9;
  for (uint32_t i = 0; i < 3; i++) {
    ballot.is_keeper = i == 1;
    ballot.least = i == 2 ? other_least : ballot.least;
    rondo_ballot_encode(&ballot, ballots[i]);
  }
  int status = rondo_ballots_decide(ballots[0], ranks, 3, &keeper, why);
  assert_true(status != RONDO_SUCCESS || keeper == 1);
  assert_int_equal(status == RONDO_SUCCESS, !*why);
  return status;
}

static void a_vote_for_too_many_or_too_few_ranks_fails(void **state) {
  (void)state;
  struct rondo_ballot grow = {.is_grow = true, .newcomers = 2, .reserved = 2, .most = 5};
  struct rondo_ballot shrink = {.least = 3};
  char why[RONDO_REASON_BYTES];
  assert_int_equal(vote_count(grow, 0, why), RONDO_SUCCESS);
  grow.most = 4;
  assert_int_equal(vote_count(grow, 0, why), RONDO_ERR_FULL);
  assert_string_equal(why, "the new job would have 5 ranks, and most_ranks is 4");
  grow.newcomers = RONDO_ALL_PENDING; // the keeper has reserved what there is room for
  grow.reserved = 1;
  assert_int_equal(vote_count(grow, 0, why), RONDO_SUCCESS);
  assert_int_equal(vote_count(shrink, 3, why), RONDO_SUCCESS);
  shrink.least = 4;
  assert_int_equal(vote_count(shrink, 4, why), RONDO_ERR_PEER);
  assert_string_equal(why, "the new job would have 3 ranks, and least_ranks is 4");
  grow.newcomers = UINT32_MAX - 1; // does not wrap
  assert_int_equal(vote_count(grow, 0, why), RONDO_ERR_FULL);
}

static void members_with_different_limits_get_the_mismatch(void **state) {
  (void)state;
  char why[RONDO_REASON_BYTES];
  assert_int_equal(vote_count((struct rondo_ballot){.least = 2}, 3, why), RONDO_ERR_MISMATCH);
  assert_string_equal(why, "the votes differ: ranks 0, 2 ask to shrink, with least_ranks 2 and "
                           "most_ranks 0; rank 5 asks to shrink, with least_ranks 3 and "
                           "most_ranks 0");
}

// The limits of an admission fit the job that it names.
static void an_admission_beyond_its_limits_is_malformed(void **state) {
  (void)state;
  const uint32_t limits[3][2] = {{2, 4}, {4, 0}, {0, 2}}; // of 3 ranks
  for (int i = 0; i < 3; i++) {
    struct rondo_admitted admitted = {
        .rank = 2, .rank_count = 3, .least_ranks = limits[i][0], .most_ranks = limits[i][1]};
    struct rondo_shared_bytes *bytes = rondo_membership_admitted_encode(&admitted);
    assert_int_equal(rondo_membership_admitted_decode(bytes->bytes, bytes->size, &admitted),
                     i == 0);
    rondo_shared_bytes_put(bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("admission", newcomers_are_reserved_at_once_or_not_at_all),
      RONDO_NAMED_TEST("admission", newcomers_that_do_not_come_in_time_wait_behind_all_others),
      RONDO_NAMED_TEST("admission", newcomers_without_room_are_refused_until_they_are_gone),
      RONDO_NAMED_TEST("admission", a_vote_for_too_many_or_too_few_ranks_fails),
      RONDO_NAMED_TEST("admission", members_with_different_limits_get_the_mismatch),
      RONDO_NAMED_TEST("admission", an_admission_beyond_its_limits_is_malformed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
