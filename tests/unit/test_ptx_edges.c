// Edges of docs/memory-order.md that whole programs seldom or never need, each as a protocol of two
// or three blocks: its instructions as nvcc makes them, and what goes wrong if one of them is
// weaker. With all of them nothing races and no seed finds a wrong outcome.
#include "tests/unit/ptx_script.h"

#define SEEDS 3000u

struct protocol {
  const char *name;
  uint32_t blocks;
  bool (*is_wrong)(const uint32_t *words); // what the buffer has at the end
  const char *body;
};

static bool is_never(const uint32_t *words) {
  (void)words;
  return false;
}

static bool word_8_is_set(const uint32_t *words) { return words[8] != 0; }
static bool word_2_is_not_two(const uint32_t *words) { return words[2] != 2; }
static bool word_9_is_set_or_8_zero(const uint32_t *words) { return words[9] || !words[8]; }

// A run fails while its consumer (block 0) reads a reference. Words: reading, shut, the payload,
// the completion. The application writes to its buffer when the run has ended.
#define READ_REFERENCE                                                                             \
  BLOCKS "fence.sc.sys;\nst.relaxed.sys.b32 [%d0], %r8;\n"                                         \
         "fence.sc.sys;\nld.acquire.sys.b32 %r2, [%d0+4];\n"                                       \
         "setp.ne.s32 %p2, %r2, 0;\n@%p2 bra LEAVE;\nld.u32 %r3, [%d0+8];\n"                       \
         "LEAVE:\nmov.u32 %r4, 0;\nst.release.sys.b32 [%d0], %r4;\nret;\n"
#define SHUT                                                                                       \
  "OTHER:\nfence.sc.sys;\nst.relaxed.sys.b32 [%d0+4], %r8;\n"                                      \
  "fence.sc.sys;\nld.acquire.sys.b32 %r2, [%d0];\n"                                                \
  "setp.ne.s32 %p2, %r2, 0;\n@%p2 bra OTHER;\n"
#define COMPLETE "fence.acq_rel.sys;\nst.volatile.u32 [%d0+12], %r8;\n"
#define WRITE_BUFFER "st.u32 [%d0+8], %r8;\n"
static const struct protocol reference = {"C5, C6", 2, is_never, READ_REFERENCE SHUT WRITE_BUFFER};
static const struct protocol reference_completed = {"C5, C6, Q1", 2, is_never,
                                                    READ_REFERENCE SHUT COMPLETE WRITE_BUFFER};

// Launches own a block in turn, and go on from its state. Words: owner, the state at 2.
#define OWN                                                                                        \
  "OWN:\nfence.sc.sys;\natom.cas.acquire.sys.b32 %r2, [%d0], 0, 1;\nsetp.ne.s32 %p2, %r2, 0;\n"
#define DISOWN "mov.u32 %r4, 0;\nfence.sc.sys;\nst.relaxed.sys.b32 [%d0], %r4;\n"
static const struct protocol ownership = {
    "L1, L2", 2, word_2_is_not_two,
    OWN "@%p2 bra OWN;\nld.u32 %r3, [%d0+8];\nadd.s32 %r3, %r3, 1;\nst.u32 [%d0+8], %r3;\n" DISOWN};

// Block 1 is launched for a run: it leaves if the block is owned, and the owner must serve the run.
// Words: owner, the ticket at 4, its words at 6; 8: the run was served, 9: without its words.
static const struct protocol ties = {
    "L1, L2, L4", 2, word_9_is_set_or_8_zero,
    "mov.u32 %r1, %ctaid.x;\nsetp.eq.s32 %p1, %r1, 0;\nmov.u32 %r8, 1;\nmov.u64 %d3, 7;\n@%p1 bra "
    "OWN;\n"
    "st.relaxed.sys.b64 [%d0+24], %d3;\n"
    "fence.sc.sys;\nst.relaxed.sys.b64 [%d0+16], %d3;\n" OWN "@%p2 bra LEAVE;\n" DISOWN
    "fence.sc.sys;\nld.acquire.sys.b64 %d1, [%d0+16];\nsetp.eq.s64 %p3, %d1, 0;\n@%p3 bra LEAVE;\n"
    "st.relaxed.sys.b32 [%d0+32], %r8;\nld.relaxed.sys.b64 %d2, [%d0+24];\n"
    "setp.eq.s64 %p4, %d2, 0;\n@!%p4 bra LEAVE;\nst.relaxed.sys.b32 [%d0+36], %r8;\nLEAVE:\n"};

// A launch leaves and reports why. Words: its counters, then `leaves`.
static const struct protocol status = {
    "L3", 2, word_8_is_set,
    BLOCKS "st.relaxed.sys.b32 [%d0], %r8;\nst.release.sys.b32 [%d0+4], %r8;\nret;\n"
           "OTHER:\nld.acquire.sys.b32 %r2, [%d0+4];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra OTHER;\n"
           "ld.relaxed.sys.b32 %r3, [%d0];\nsetp.ne.s32 %p3, %r3, 0;\n@%p3 bra END;\n"
           "st.u32 [%d0+32], %r8;\nEND:\n"};

// Block 0 reads an entry and releases it. Block 1 sees that and claims the place, block 2 claims
// after block 1 and writes the next entry. Words: the entry, `consumed`, the claim.
static const struct protocol claim = {
    "Q3, Q4, Q5", 3, word_8_is_set,
    BLOCKS
    "ld.acquire.sys.b32 %r2, [%d0];\nst.release.sys.b32 [%d0+4], %r8;\nst.u32 [%d0+32], %r2;\n"
    "ret;\nOTHER:\nsetp.eq.s32 %p3, %r1, 2;\n@%p3 bra LAST;\n"
    "FULL:\nld.acquire.sys.b32 %r2, [%d0+4];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra FULL;\n"
    "atom.cas.acq_rel.sys.b32 %r3, [%d0+8], 0, 1;\nret;\n"
    "LAST:\natom.cas.acq_rel.sys.b32 %r3, [%d0+8], 1, 2;\nsetp.ne.s32 %p2, %r3, 1;\n"
    "@%p2 bra LAST;\nfence.acq_rel.sys;\nst.volatile.u32 [%d0], %r8;\n"};

// A gate opens, with connectors that are in place. Words: the state, a connector.
static const struct protocol gate_opens = {
    "G1, G2", 2, is_never,
    BLOCKS "st.u32 [%d0+4], %r8;\nst.release.sys.b32 [%d0], %r8;\nret;\n"
           "OTHER:\nld.acquire.sys.b32 %r2, [%d0];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra OTHER;\n"
           "ld.u32 %r3, [%d0+4];\n"};

// A member stores why it leaves, then that no later run completes. Words: the state, that it left.
static const struct protocol gate_fails = {
    "G1, G2", 2, word_8_is_set,
    BLOCKS "st.release.sys.b32 [%d0], %r8;\nst.release.sys.b64 [%d0+8], %d0;\nret;\n"
           "OTHER:\nld.acquire.sys.b64 %d1, [%d0+8];\nsetp.eq.s64 %p2, %d1, 0;\n@%p2 bra OTHER;\n"
           "ld.acquire.sys.b32 %r3, [%d0];\nsetp.ne.s32 %p3, %r3, 0;\n@%p3 bra END;\n"
           "st.u32 [%d0+32], %r8;\nEND:\n"};

// The CPU (block 0) submits, the mirror (block 1) passes the entry on, block 2 takes it. Words: the
// entry and its mark, in the SQ and in the inbox.
#define TO_LAST "ret;\nOTHER:\nsetp.eq.s32 %p3, %r1, 2;\n@%p3 bra LAST;\n"
static const struct protocol entry_mirrored = {
    "S1, S2 of a mirror", 3, is_never,
    BLOCKS "st.u32 [%d0], %r8;\nst.release.sys.b32 [%d0+4], %r8;\n" TO_LAST
           "LOOK:\nld.acquire.sys.b32 %r2, [%d0+4];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra LOOK;\n"
           "ld.u32 %r3, [%d0];\nst.u32 [%d0+8], %r3;\nfence.acq_rel.gpu;\n"
           "st.relaxed.sys.b32 [%d0+12], %r8;\nret;\n"
           "LAST:\nld.acquire.sys.b32 %r2, [%d0+12];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra LAST;\n"
           "ld.u32 %r3, [%d0+8];\n"};

// The same for a gate that opens, or a stream that reaches its run: what was in place before can be
// used. Words: that, the state or the doorbell, its copy.
static const struct protocol word_mirrored = {
    "G2, G3; D2, D6", 3, is_never,
    BLOCKS "st.u32 [%d0], %r8;\nst.release.sys.b32 [%d0+4], %r8;\n" TO_LAST
           "LOOK:\nld.relaxed.sys.b32 %r2, [%d0+4];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra LOOK;\n"
           "ld.acquire.sys.b32 %r2, [%d0+4];\nst.release.gpu.b32 [%d0+8], %r2;\nret;\n"
           "LAST:\nld.acquire.gpu.b32 %r2, [%d0+8];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra LAST;\n"
           "ld.u32 %r3, [%d0];\n"};

// Two warps own the mirror in turn. Words: owner, the state at 2.
static const struct protocol mirror_owned = {
    "X1, X2", 2, word_2_is_not_two,
    "OWN:\natom.cas.acq_rel.gpu.b32 %r2, [%d0], 0, 1;\nsetp.ne.s32 %p2, %r2, 0;\n@%p2 bra OWN;\n"
    "ld.u32 %r3, [%d0+8];\nadd.s32 %r3, %r3, 1;\nst.u32 [%d0+8], %r3;\n"
    "mov.u32 %r4, 0;\nst.release.gpu.b32 [%d0], %r4;\n"};

static void whole_protocols_are_right(void **state) {
  static const struct protocol *const all[] = {
      &reference,  &reference_completed, &ownership,      &ties,          &status,       &claim,
      &gate_opens, &gate_fails,          &entry_mirrored, &word_mirrored, &mirror_owned, NULL};
  (void)state;
  for (size_t i = 0; all[i]; i++) {
    const struct protocol *p = all[i];
    const struct script_shape shape = {.blocks = p->blocks, .threads = 1, .seeds = SEEDS};
    const uint32_t wrong = outcomes_count(p->body, &shape, p->is_wrong);
    if (wrong || races)
      fail_msg("%s: %u wrong outcomes, %u races: %s", p->name, wrong, races, races ? race : "");
  }
}

// An instruction that is weaker, or missing where `to` is empty.
struct weak_edge {
  const char *edge;
  const struct protocol *protocol;
  const char *from, *to;
  uint32_t which;     // of the places that have `from`, from 1
  bool is_equivalent; // nothing goes wrong
};

static const struct weak_edge edges[] = {
    {"C5: the fence before `reading`", &reference, "fence.sc.sys;\n", "", 1, true},
    {"C5: the fence before `shut`", &reference, "fence.sc.sys;\n", "", 2, false},
    {"C5: `shut`", &reference, "ld.acquire", "ld.relaxed", 1, true},
    {"C5: no look, as in RONDO_FAULT_SHUT_UNSEEN", &reference, "@%p2 bra LEAVE;\n", "", 1, false},
    {"C5: the end", &reference, "st.release", "st.relaxed", 1, false},
    {"C6: the fence before `shut`", &reference, "fence.sc.sys;\n", "", 3, true},
    {"C6: the fence before `reading`", &reference, "fence.sc.sys;\n", "", 4, false},
    {"C6: `reading`, without a completion", &reference, "ld.acquire", "ld.relaxed", 2, false},
    {"C6: `reading`", &reference_completed, "ld.acquire", "ld.relaxed", 2, true},
    {"L1: the fence", &ownership, "fence.sc.sys;\n", "", 2, false},
    {"L2: the swap", &ownership, ".acquire", ".relaxed", 1, false},
    {"L2: the fence", &ties, "fence.sc.sys;\n", "", 2, false},
    {"L4: the fence before the ticket", &ties, "fence.sc.sys;\n", "", 1, false},
    {"L4: the fence of the look", &ties, "fence.sc.sys;\n", "", 4, false},
    {"L4: the look", &ties, "ld.acquire", "ld.relaxed", 1, false},
    {"L3: `leaves`", &status, "st.release", "st.relaxed", 1, false},
    {"L3: the look", &status, "ld.acquire", "ld.relaxed", 1, false},
    {"Q4: `consumed`", &claim, "ld.acquire", "ld.relaxed", 2, true},
    {"Q5: the swaps", &claim, "cas.acq_rel", "cas.relaxed", 0, true},
    {"Q2 and Q3: the entry and `consumed`", &claim, "acquire.sys.b32 %r2, [%d0];\nst.release",
     "relaxed.sys.b32 %r2, [%d0];\nst.relaxed", 1, false},
    {"G2: the state", &gate_opens, "ld.acquire", "ld.relaxed", 1, false},
    {"G2: the last run", &gate_fails, "ld.acquire", "ld.relaxed", 1, false},
    {"G2: the second look at the state", &gate_fails, "ld.acquire", "ld.relaxed", 2, true},
    {"S2: the mirror's look", &entry_mirrored, "ld.acquire", "ld.relaxed", 1, false},
    {"S1: the mirror's fence", &entry_mirrored, "fence.acq_rel.gpu;\n", "", 1, false},
    {"S1: the mirror's mark before the entry", &entry_mirrored,
     "st.u32 [%d0+8], %r3;\nfence.acq_rel.gpu;\nst.relaxed.sys.b32 [%d0+12], %r8;\n",
     "fence.acq_rel.gpu;\nst.relaxed.sys.b32 [%d0+12], %r8;\nst.u32 [%d0+8], %r3;\n", 1, false},
    {"S2: the block's look", &entry_mirrored, "ld.acquire", "ld.relaxed", 2, false},
    {"G2, D2: the mirror's look", &word_mirrored, "ld.acquire.sys", "ld.relaxed.sys", 1, false},
    {"G3, D6: the copy", &word_mirrored, "st.release.gpu", "st.relaxed.gpu", 1, false},
    {"G3, D6: the copy, with too small a scope", &word_mirrored, "st.release.gpu", "st.release.cta",
     1, false},
    {"G2, D2: the block's look", &word_mirrored, "ld.acquire.gpu", "ld.relaxed.gpu", 1, false},
    {"X1: the end", &mirror_owned, "st.release", "st.relaxed", 1, false},
    {"X2: the swap", &mirror_owned, "cas.acq_rel", "cas.relaxed", 1, false},
};

// The body with the edge weakened, to be freed by the caller.
static char *edge_weaken(const struct weak_edge *e) {
  char *body = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&body, &bytes);
  uint32_t found = 0, changed = 0;
  assert_non_null(out);
  for (const char *at = e->protocol->body; *at;) {
    const bool is_there = strncmp(at, e->from, strlen(e->from)) == 0;
    if (is_there && (++found == e->which || e->which == 0)) {
      assert_true(fputs(e->to, out) >= 0);
      at += strlen(e->from);
      changed++;
    } else {
      assert_true(fputc(*at++, out) != EOF);
    }
  }
  assert_int_equal(fclose(out), 0);
  assert_true(changed > 0);
  return body;
}

static void weak_edges_are_wrong_or_equivalent(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
    const struct weak_edge *e = &edges[i];
    const struct script_shape shape = {.blocks = e->protocol->blocks, .threads = 1, .seeds = SEEDS};
    char *body = edge_weaken(e);
    const uint32_t wrong = outcomes_count(body, &shape, e->protocol->is_wrong);
    if ((wrong || races) == e->is_equivalent)
      fail_msg("%s: %u wrong outcomes, %u races: %s", e->edge, wrong, races, races ? race : "");
    free(body);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_edges", whole_protocols_are_right),
      RONDO_NAMED_TEST("ptx_edges", weak_edges_are_wrong_or_equivalent),
  };
  return cmocka_run_group_tests_name("ptx_edges", tests, NULL, NULL);
}
