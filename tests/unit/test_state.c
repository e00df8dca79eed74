// Shared state without its shell: the blocks of a state and their hashes, which content is chosen,
// and who sends which block.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/state/state_claim.h"
#include "runtime/state/state_deal.h"
#include "runtime/state/state_hash.h"
#include "tests/support/named.h"

#define MIB RONDO_STATE_BLOCK_BYTES

// ---------------------------------------------------------------- blocks, hashes ---

static void blocks_cover_tensors_of_any_size(void **state) {
  (void)state;
  static char memory[3 * MIB];
  const struct rondo_state_tensor tensors[] = {
      {"empty", NULL, 0, RONDO_FLOAT32},
      {"odd", memory, 3, RONDO_FLOAT16},
      {"whole", memory, 2 * MIB / 8, RONDO_FLOAT64},
      {"empty too", NULL, 0, RONDO_INT8},
      {"more", memory, MIB + 1, RONDO_FLOAT8_E4M3},
      {"last", NULL, 0, RONDO_INT8},
  };
  const struct {
    uint32_t tensor;
    uint64_t offset, bytes;
  } expected[] = {{1, 0, 6}, {2, 0, MIB}, {2, MIB, MIB}, {4, 0, MIB}, {4, MIB, 1}};
  struct rondo_state_layout layout;
  assert_int_equal(rondo_state_layout_init(&layout, tensors, 6), RONDO_SUCCESS);
  assert_int_equal(layout.block_count, 5);
  for (uint64_t i = 0; i < layout.block_count; i++) {
    const struct rondo_state_block block = rondo_state_layout_block(&layout, i);
    assert_int_equal(block.tensor, expected[i].tensor);
    assert_int_equal(block.bytes, expected[i].bytes);
    assert_ptr_equal(block.memory, memory + expected[i].offset);
  }
  rondo_state_layout_fini(&layout);
}

static void lists_differ_in_name_type_count_and_length(void **state) {
  (void)state;
  const struct rondo_state_tensor base[2] = {{"a", NULL, 1, RONDO_INT8},
                                             {"b", NULL, 2, RONDO_INT8}};
  struct rondo_state_tensor other[2];
  struct rondo_state_layout x;
  struct rondo_state_layout y;
  assert_int_equal(rondo_state_layout_init(&x, base, 2), RONDO_SUCCESS);
  for (int change = 0; change < 5; change++) {
    memcpy(other, base, sizeof base);
    if (change == 1)
      other[1].name = "c";
    if (change == 2)
      other[1].dtype = RONDO_UINT8;
    if (change == 3)
      other[1].count = 3;
    assert_int_equal(rondo_state_layout_init(&y, other, change == 4 ? 1 : 2), RONDO_SUCCESS);
    assert_true(rondo_state_list_digest(&x, 1) == rondo_state_list_digest(&y, 1));
    assert_int_equal(rondo_state_list_digest(&x, 2) == rondo_state_list_digest(&y, 2), change == 0);
    rondo_state_layout_fini(&y);
  }
  rondo_state_layout_fini(&x);
}

static void the_hash_is_the_documented_tree(void **state) {
  (void)state;
  static uint8_t memory[2 * MIB + 12];
  const struct rondo_state_tensor tensors[] = {{"a", memory, (2 * MIB + 12) / 4, RONDO_FLOAT32},
                                               {"b", NULL, 0, RONDO_INT64},
                                               {"c", memory + 1, 5, RONDO_BFLOAT16}};
  uint64_t hashes[7];
  uint64_t upper[3];
  struct rondo_state_layout layout;
  for (size_t i = 0; i < sizeof memory; i++)
    memory[i] = (uint8_t)(i * 2654435761u >> 13);
  assert_int_equal(rondo_state_layout_init(&layout, tensors, 3), RONDO_SUCCESS);
  assert_int_equal(rondo_state_hash_count(&layout), 7);
  rondo_state_hash_blocks(&layout, rondo_block_hash_select(), hashes);
  uint64_t root = rondo_state_hash_tree(&layout, rondo_block_hash_select(), hashes);
  const uint64_t blocks[4] = {XXH3_64bits(memory, MIB), XXH3_64bits(memory + MIB, MIB),
                              XXH3_64bits(memory + 2 * MIB, 12), XXH3_64bits(memory + 1, 10)};
  assert_memory_equal(hashes, blocks, sizeof blocks);
  upper[0] = XXH3_64bits(blocks, 3 * sizeof *blocks);
  upper[1] = XXH3_64bits("", 0);
  upper[2] = XXH3_64bits(blocks + 3, sizeof *blocks);
  assert_memory_equal(hashes + 4, upper, sizeof upper);
  assert_true(root == XXH3_64bits(upper, sizeof upper));
  rondo_state_layout_fini(&layout);
}

// What docs/elastic.md says of a GPU: the sums of all KiB can be computed at once, then follows a
// short step for each KiB. Only the secret of XXH3 is taken from xxHash.

static uint64_t word_at(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

static void stripe_add(uint64_t sums[8], const uint8_t *stripe, const uint8_t *secret) {
  for (uint32_t lane = 0; lane < 8; lane++) {
    uint64_t data = word_at(stripe + 8 * lane);
    uint64_t keyed = data ^ word_at(secret + 8 * lane);
    sums[lane ^ 1] += data;
    sums[lane] += (keyed & 0xffffffff) * (keyed >> 32);
  }
}

__extension__ typedef unsigned __int128 wide;

static uint64_t lanes_merge(const uint64_t lanes[8]) {
  uint64_t hash = MIB * 0x9e3779b185ebca87u;
  for (uint32_t lane = 0; lane < 8; lane += 2) {
    wide product = (wide)(lanes[lane] ^ word_at(XXH3_kSecret + 11 + 8 * lane)) *
                   (lanes[lane + 1] ^ word_at(XXH3_kSecret + 19 + 8 * lane));
    hash += (uint64_t)product ^ (uint64_t)(product >> 64);
  }
  hash = (hash ^ hash >> 37) * 0x165667919e3779f9u;
  return hash ^ hash >> 32;
}

static void the_hash_of_a_whole_block_can_be_computed_in_parallel(void **state) {
  (void)state;
  static uint8_t memory[MIB];
  static uint64_t sums[1024][8];
  uint64_t lanes[8] = {0xc2b2ae3d,         0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f,
                       0x165667b19e3779f9, 0x85ebca77c2b2ae63, 0x85ebca77,
                       0x27d4eb2f165667c5, 0x9e3779b1};
  for (size_t i = 0; i < sizeof memory; i++)
    memory[i] = (uint8_t)(i * 2246822519u >> 11);
  for (uint32_t kib = 1024; kib-- > 0;) // in any order
    for (uint32_t stripe = 0; stripe < (kib < 1023 ? 16 : 15); stripe++)
      stripe_add(sums[kib], memory + (size_t)1024 * kib + (size_t)64 * stripe,
                 XXH3_kSecret + 8 * stripe);
  stripe_add(sums[1023], memory + MIB - 64, XXH3_kSecret + 121);
  for (uint32_t kib = 0; kib < 1024; kib++)
    for (uint32_t lane = 0; lane < 8; lane++) {
      lanes[lane] += sums[kib][lane];
      if (kib == 1023)
        continue;
      lanes[lane] ^= lanes[lane] >> 47;
      lanes[lane] ^= word_at(XXH3_kSecret + 128 + 8 * lane);
      lanes[lane] *= 0x9e3779b1;
    }
  assert_true(lanes_merge(lanes) == rondo_block_hash_base(memory, MIB));
}

static void every_variant_of_the_hash_is_the_same(void **state) {
  (void)state;
  static uint8_t memory[4096 + 64];
  for (size_t i = 0; i < sizeof memory; i++)
    memory[i] = (uint8_t)(i * 2654435761u >> 15);
  for (size_t size = 0; size <= 4096; size += size < 300 ? 1 : 61)
    for (size_t offset = 0; offset < 64; offset += 21) {
      uint64_t base = rondo_block_hash_base(memory + offset, size);
      assert_true(base == rondo_block_hash_select()(memory + offset, size));
      assert_true(base == XXH3_64bits(memory + offset, size));
    }
}

// ----------------------------------------------------------------------- claims ---

static void a_claim_is_read_as_it_was_written(void **state) {
  (void)state;
  struct rondo_state_claim claim = {.strategy = RONDO_STATE_RECEIVE_ONLY,
                                    .is_partial = true,
                                    .tensor_count = UINT32_MAX,
                                    .list = 1,
                                    .content = 2,
                                    .revision = 3,
                                    .digest = UINT64_MAX};
  struct rondo_state_claim read;
  uint8_t bytes[RONDO_STATE_CLAIM_BYTES];
  memset(claim.text, 'x', sizeof claim.text - 1);
  rondo_state_claim_encode(&claim, bytes);
  assert_true(rondo_state_claim_decode(bytes, &read));
  assert_true(read.is_partial && read.strategy == claim.strategy && read.list == 1);
  assert_true(read.tensor_count == UINT32_MAX && read.content == 2 && read.revision == 3);
  assert_true(read.digest == UINT64_MAX);
  assert_string_equal(read.text, claim.text);
}

static void malformed_claims_are_refused_by_the_name_of_the_rank(void **state) {
  (void)state;
  const struct rondo_state_claim claim = {.text = ""};
  const uint32_t ranks[2] = {3, 8};
  struct rondo_state_claim claims[2];
  char why[RONDO_REASON_BYTES];
  uint8_t bytes[2 * RONDO_STATE_CLAIM_BYTES];
  rondo_state_claim_encode(&claim, bytes);
  rondo_state_claim_encode(&claim, bytes + RONDO_STATE_CLAIM_BYTES);
  assert_int_equal(rondo_state_claims_read(bytes, ranks, 2, claims, why), RONDO_SUCCESS);
  for (size_t at = 0; at < 3; at++) { // the version, the strategy, the flag
    bytes[RONDO_STATE_CLAIM_BYTES + at] ^= 0x40;
    assert_int_equal(rondo_state_claims_read(bytes, ranks, 2, claims, why), RONDO_ERR_INTERNAL);
    assert_non_null(strstr(why, "rank 8"));
    bytes[RONDO_STATE_CLAIM_BYTES + at] ^= 0x40;
  }
}

// --------------------------------------------------------------------- decisions ---

// A member: strategy, partial, revision, content; the digest is that of the revision, times 100,
// unless the content has changed.
#define MEMBER(s, p, r, c)                                                                         \
  {                                                                                                \
    .strategy = RONDO_STATE_##s, .is_partial = (p), .revision = (r), .content = (c),               \
    .digest = (r)*UINT64_C(100)                                                                    \
  }
#define MOST(r, c) MEMBER(MOST_FREQUENT, 0, r, c)
#define SEND(r, c) MEMBER(SEND_ONLY, 0, r, c)
#define RECEIVE(r, c) MEMBER(RECEIVE_ONLY, 0, r, c)
#define PART(r, c) MEMBER(MOST_FREQUENT, 1, r, c)

struct decision {
  const char *name;
  const char *why; // of a refusal; its ranks are 10, 11, 12, 13
  uint64_t revision;
  struct rondo_state_claim claims[4];
  uint32_t count;
  int status;
  uint32_t source; // of success
  bool differs;
};

#define AGREE(n, source_, revision_, differs_, ...)                                                \
  {                                                                                                \
    .claims = {__VA_ARGS__},                                                                       \
    .count = sizeof((struct rondo_state_claim[]){__VA_ARGS__}) / sizeof(struct rondo_state_claim), \
    .name = (n), .source = (source_), .revision = (revision_), .differs = (differs_)               \
  }
#define REFUSE(n, why_, ...)                                                                       \
  {                                                                                                \
    .claims = {__VA_ARGS__},                                                                       \
    .count = sizeof((struct rondo_state_claim[]){__VA_ARGS__}) / sizeof(struct rondo_state_claim), \
    .name = (n), .why = (why_), .status = RONDO_ERR_MISMATCH                                       \
  }

static const struct decision decisions[] = {
    AGREE("first call of all", 0, 1, false, MOST(0, 7), MOST(0, 7)),
    AGREE("first call of a member alone", 0, 1, false, MOST(0, 7)),
    AGREE("nothing has changed", 0, 4, false, MOST(4, 400), MOST(4, 400)),
    AGREE("all have changed", 0, 5, false, MOST(4, 9), MOST(4, 9)),
    AGREE("one was damaged", 1, 4, true, MOST(4, 1), MOST(4, 400), MOST(4, 400)),
    AGREE("most win", 1, 5, true, MOST(4, 1), MOST(4, 9), MOST(4, 2), MOST(4, 9)),
    AGREE("of equally many the lowest rank wins", 0, 1, true, MOST(0, 5), MOST(0, 6), MOST(0, 6),
          MOST(0, 5)),
    AGREE("newcomers never win", 2, 3, true, MOST(0, 1), MOST(0, 1), MOST(3, 300), MOST(0, 1)),
    AGREE("a newer revision wins", 1, 5, true, MOST(4, 400), MOST(5, 500), MOST(4, 400)),
    AGREE("who receives has no vote", 2, 1, true, RECEIVE(0, 1), RECEIVE(0, 1), MOST(0, 2)),
    AGREE("the source is one that has a vote", 1, 1, false, RECEIVE(0, 2), MOST(0, 2)),
    AGREE("who sends decides", 2, 3, true, MOST(2, 200), MOST(2, 200), SEND(2, 9)),
    AGREE("two may send the same", 0, 3, true, SEND(2, 9), MOST(2, 200), SEND(2, 9)),
    AGREE("a part has no vote", 2, 4, true, PART(4, 3), PART(4, 3), MOST(4, 400)),
    REFUSE("two send different contents",
           "ranks 10, 12 ask to send only, but their contents differ", SEND(2, 9), MOST(2, 200),
           SEND(2, 8)),
    REFUSE("all receive",
           "no member has a content for the others: ranks 10, 11 ask to receive only",
           RECEIVE(1, 9), RECEIVE(1, 9)),
    REFUSE("all have a part",
           "no member has a content for the others: ranks 10, 11 have only a part, of a call that "
           "failed",
           PART(1, 9), PART(1, 9)),
    REFUSE("some receive and one has a part",
           "no member has a content for the others: rank 10 asks to receive only; rank 11 has only "
           "a part, of a call that failed",
           RECEIVE(1, 9), PART(1, 9)),
    REFUSE("who sends is behind",
           "rank 10 asks to send only and has revision 2; ranks 11, 12 have revision 3", SEND(2, 9),
           MOST(3, 300), MOST(3, 300)),
    REFUSE("who sends has a part",
           "rank 10 asks to send only, but has only a part, of a call that failed",
           MEMBER(SEND_ONLY, 1, 3, 9), MOST(3, 300)),
    REFUSE("only one who receives is ahead",
           "rank 10 has revision 6; no member with a content for the others has more than 3",
           RECEIVE(6, 9), MOST(3, 300)),
    REFUSE("only a part is ahead",
           "rank 11 has revision 3; no member with a content for the others has more than 0",
           MOST(0, 9), PART(3, 300)),
};

static void each_combination_is_decided(void **state) {
  (void)state;
  const uint32_t ranks[4] = {10, 11, 12, 13};
  for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++) {
    const struct decision *d = &decisions[i];
    const struct rondo_state_claims all = {d->claims, ranks, d->count};
    struct rondo_state_verdict verdict = {.source = 99};
    char why[RONDO_REASON_BYTES];
    bool lists_differ = true;
    int status = rondo_state_decide(&all, &verdict, &lists_differ, why);
    if (status != d->status || strcmp(why, d->why ? d->why : "") != 0)
      fprintf(stderr, "%s: %d, \"%s\"\n", d->name, status, why);
    assert_int_equal(status, d->status);
    assert_false(lists_differ);
    assert_string_equal(why, d->why ? d->why : "");
    if (status != RONDO_SUCCESS)
      continue;
    assert_int_equal(verdict.source, d->source);
    assert_int_equal(verdict.revision, d->revision);
    assert_int_equal(verdict.differs, d->differs);
    assert_int_equal(verdict.content, d->claims[d->source].content);
  }
}

static void differing_lists_are_described(void **state) {
  (void)state;
  const uint32_t ranks[3] = {0, 1, 2};
  struct rondo_state_claim claims[3] = {
      {.list = 1, .text = "'w' of 10 float32"},
      {.list = 2, .text = "no such tensor"},
      {.list = 1, .text = "'w' of 10 float32"},
  };
  const struct rondo_state_claims all = {claims, ranks, 3};
  struct rondo_state_verdict verdict;
  char why[RONDO_REASON_BYTES];
  bool lists_differ = false;
  assert_int_equal(rondo_state_decide(&all, &verdict, &lists_differ, why), RONDO_ERR_MISMATCH);
  assert_true(lists_differ);
  rondo_state_describe_lists(&all, 7, why);
  assert_string_equal(why, "the states differ in tensor 7: ranks 0, 2 have 'w' of 10 float32; "
                           "rank 1 has no such tensor");
}

// ------------------------------------------------------------------------ deals ---

#define MOST_MEMBERS 40u
#define MOST_BLOCKS 300u

// A state of blocks of random sizes, and a map for each member.
struct scene {
  struct rondo_state_tensor tensors[MOST_BLOCKS];
  struct rondo_state_layout layout;
  uint8_t maps[MOST_MEMBERS * (MOST_BLOCKS / 8 + 1)];
  uint32_t members, blocks;
};

static uint64_t seed = 1;
static uint32_t random_below(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((seed >> 33) % n);
}

static void scene_init(struct scene *s, uint32_t members, uint32_t blocks) {
  memset(s, 0, sizeof *s);
  s->members = members;
  s->blocks = blocks;
  for (uint32_t i = 0; i < blocks; i++)
    s->tensors[i] = (struct rondo_state_tensor){
        "t", NULL, random_below(3) ? MIB : 1 + random_below(MIB / 2), RONDO_UINT8};
  assert_int_equal(rondo_state_layout_init(&s->layout, s->tensors, blocks), RONDO_SUCCESS);
}

static uint8_t *scene_map(struct scene *s, uint32_t member) {
  return s->maps + member * rondo_state_map_bytes(s->blocks);
}

static uint32_t arrivals[MOST_MEMBERS][MOST_BLOCKS];

// The order of a member's parcels is that of all members: by number, then by pair.
static void order_check(const struct rondo_state_deal *deal) {
  for (size_t i = 1; i < deal->parcel_count; i++) {
    const struct rondo_state_parcel *p = &deal->parcels[i - 1];
    const struct rondo_state_parcel *q = &deal->parcels[i];
    assert_true(p->number < q->number || (p->number == q->number && p->from < q->from) ||
                (p->number == q->number && p->from == q->from && p->to < q->to));
  }
}

// The other end of a parcel has the same one.
static void end_check(const struct rondo_state_deal *deal, const struct rondo_state_parcel *p,
                      const struct rondo_state_deal *other) {
  const struct rondo_state_parcel *q = other->parcels;
  const struct rondo_state_parcel *end = q + other->parcel_count;
  while (q < end && !(q->from == p->from && q->to == p->to && q->number == p->number))
    q++;
  assert_true(q < end);
  assert_int_equal(q->count, p->count);
  assert_memory_equal(other->blocks + q->first, deal->blocks + p->first,
                      p->count * sizeof *deal->blocks);
}

// The sender has the blocks. Counts them where they arrive.
static void parcel_check(struct scene *s, const struct rondo_state_deal *deal,
                         const struct rondo_state_parcel *p, bool arrives) {
  uint64_t bytes = 0;
  for (uint32_t b = 0; b < p->count; b++) {
    uint64_t block = deal->blocks[p->first + b];
    bytes += s->tensors[block].count;
    assert_false(rondo_state_map_get(scene_map(s, p->from), block));
    arrivals[p->to][block] += arrives;
  }
  assert_true(p->count > 0 && bytes > 0 && bytes <= MIB);
  assert_int_equal(bytes, p->bytes);
}

// Makes the deals of all members. Each block that a member lacks comes once, from a member that has
// it, and both members agree on each parcel. `sent` gets the bytes that each sends.
static void scene_check(struct scene *s, uint64_t *sent) {
  struct rondo_state_deal deals[MOST_MEMBERS];
  memset(arrivals, 0, sizeof arrivals);
  for (uint32_t m = 0; m < s->members; m++)
    assert_int_equal(rondo_state_deal_make(s->maps, s->members, &s->layout, m, &deals[m]),
                     RONDO_SUCCESS);
  for (uint32_t m = 0; m < s->members; m++) {
    sent[m] = 0;
    order_check(&deals[m]);
    for (size_t i = 0; i < deals[m].parcel_count; i++) {
      const struct rondo_state_parcel *p = &deals[m].parcels[i];
      assert_true((p->from == m) != (p->to == m));
      end_check(&deals[m], p, &deals[p->from == m ? p->to : p->from]);
      parcel_check(s, &deals[m], p, p->to == m);
      sent[m] += p->from == m ? p->bytes : 0;
    }
  }
  for (uint32_t m = 0; m < s->members; m++) {
    for (uint32_t b = 0; b < s->blocks; b++)
      assert_int_equal(arrivals[m][b], rondo_state_map_get(scene_map(s, m), b));
    rondo_state_deal_fini(&deals[m]);
  }
}

static void each_lacking_block_comes_once_from_a_member_that_has_it(void **state) {
  (void)state;
  static struct scene s;
  uint64_t sent[MOST_MEMBERS];
  for (uint32_t round = 0; round < 60; round++) {
    scene_init(&s, 2 + random_below(MOST_MEMBERS - 1), 1 + random_below(MOST_BLOCKS));
    uint32_t source = random_below(s.members);
    for (uint32_t m = 0; m < s.members; m++) {
      uint32_t chance = random_below(3) ? 20 : 1; // some lack everything
      for (uint32_t b = 0; b < s.blocks; b++)
        if (m != source && random_below(chance) == 0)
          rondo_state_map_set(scene_map(&s, m), b);
    }
    scene_check(&s, sent);
    rondo_state_layout_fini(&s.layout);
  }
}

static void a_newcomer_is_served_by_all_in_equal_parts(void **state) {
  (void)state;
  static struct scene s;
  uint64_t sent[MOST_MEMBERS];
  scene_init(&s, 9, 256);
  for (uint32_t b = 0; b < s.blocks; b++) {
    s.tensors[b].count = MIB;
    rondo_state_map_set(scene_map(&s, 4), b);
  }
  scene_check(&s, sent);
  for (uint32_t m = 0; m < s.members; m++)
    assert_int_equal(sent[m], m == 4 ? 0 : 32 * MIB);
  rondo_state_layout_fini(&s.layout);
}

static void small_blocks_travel_together(void **state) {
  (void)state;
  static struct scene s;
  struct rondo_state_deal deal;
  scene_init(&s, 2, 64);
  for (uint32_t b = 0; b < s.blocks; b++) {
    s.tensors[b].count = MIB / 16;
    rondo_state_map_set(scene_map(&s, 0), b);
  }
  assert_int_equal(rondo_state_deal_make(s.maps, 2, &s.layout, 1, &deal), RONDO_SUCCESS);
  assert_int_equal(deal.parcel_count, 4);
  for (size_t i = 0; i < deal.parcel_count; i++)
    assert_int_equal(deal.parcels[i].bytes, MIB);
  rondo_state_deal_fini(&deal);
  rondo_state_layout_fini(&s.layout);
}

static void a_block_that_nobody_has_is_refused(void **state) {
  (void)state;
  static struct scene s;
  struct rondo_state_deal deal = {.senders = 7};
  scene_init(&s, 3, 10);
  for (uint32_t m = 0; m < 3; m++)
    rondo_state_map_set(scene_map(&s, m), 9);
  assert_int_equal(rondo_state_deal_make(s.maps, 3, &s.layout, 0, &deal), RONDO_ERR_INTERNAL);
  assert_int_equal(deal.senders, 7); // not written
  rondo_state_layout_fini(&s.layout);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("state", blocks_cover_tensors_of_any_size),
      RONDO_NAMED_TEST("state", lists_differ_in_name_type_count_and_length),
      RONDO_NAMED_TEST("state", the_hash_is_the_documented_tree),
      RONDO_NAMED_TEST("state", the_hash_of_a_whole_block_can_be_computed_in_parallel),
      RONDO_NAMED_TEST("state", every_variant_of_the_hash_is_the_same),
      RONDO_NAMED_TEST("state", a_claim_is_read_as_it_was_written),
      RONDO_NAMED_TEST("state", malformed_claims_are_refused_by_the_name_of_the_rank),
      RONDO_NAMED_TEST("state", each_combination_is_decided),
      RONDO_NAMED_TEST("state", differing_lists_are_described),
      RONDO_NAMED_TEST("state", each_lacking_block_comes_once_from_a_member_that_has_it),
      RONDO_NAMED_TEST("state", a_newcomer_is_served_by_all_in_equal_parts),
      RONDO_NAMED_TEST("state", small_blocks_travel_together),
      RONDO_NAMED_TEST("state", a_block_that_nobody_has_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
