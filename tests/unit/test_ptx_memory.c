// The memory of the PTX machine against litmus tests: it finds all outcomes that the memory
// consistency model of PTX allows, and none that the model forbids. Numbers are sections of the PTX
// ISA manual.
#include "tests/support/ptx/ptx_memory_litmus.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/load.h"
#include "tests/support/named.h"

enum litmus_limit {
  ANYWHERE,
  INSIDE,     // only inside a block: for barriers
  OUTSIDE,    // only between blocks or devices: for what .cta is too small for
  SUFFICIENT, // only where the scope includes all threads
  FIXED,      // the threads say where they are: only once, with .sys
};

struct litmus {
  const char *name;
  const char *threads;
  const char *observed;
  // NULL: every outcome that the next two do not list may appear. Else these must appear.
  const char *allowed;
  // Must not appear where the scopes include all threads, and must appear where they do not.
  const char *forbidden;
  const char *never;
  enum litmus_limit limit;
};

static const struct litmus shapes[] = {
    // Message passing. 8.9.4: a release pattern and an acquire pattern synchronise, 8.10.6.
    {"mp", "st x 1; st.relaxed y 1 | a=ld.relaxed y; b=ld x", "ab", "00 01 10 11", "", "",
     ANYWHERE},
    {"mp_release_acquire", "st x 1; st.release y 1 | a=ld.acquire y; b=ld x", "ab", "00 01 11",
     "10", "", ANYWHERE},
    {"mp_fences", "st x 1; fence; st.relaxed y 1 | a=ld.relaxed y; fence; b=ld x", "ab", "00 01 11",
     "10", "", ANYWHERE},
    {"mp_half_fences",
     "st x 1; fence.release; st.relaxed y 1 | a=ld.relaxed y; fence.acquire; b=ld x", "ab",
     "00 01 11", "10", "", ANYWHERE},
    {"mp_fence_acquire", "st x 1; fence; st.relaxed y 1 | a=ld.acquire y; b=ld x", "ab", "00 01 11",
     "10", "", ANYWHERE},
    {"mp_release_only", "st x 1; st.release y 1 | a=ld.relaxed y; b=ld x", "ab", "00 01 10 11", "",
     "", ANYWHERE},
    {"mp_acquire_only", "st x 1; st.relaxed y 1 | a=ld.acquire y; b=ld x", "ab", "00 01 10 11", "",
     "", ANYWHERE},
    {"mp_wrong_fences",
     "st x 1; fence.acquire; st.relaxed y 1 | a=ld.relaxed y; fence.release; b=ld x", "ab",
     "00 01 10 11", "", "", ANYWHERE},
    // A weak flag is not morally strong (8.7), so nothing synchronises.
    {"mp_weak_flag", "st x 1; fence; st y 1 | a=ld y; fence; b=ld x", "ab", "00 01 10 11", "", "",
     ANYWHERE},
    {"mp_barrier", "st x 1; bar | bar; a=ld x", "a", "1", "", "0", INSIDE},
    {"mp_barrier_then_release",
     "0.0.0.0: st x 1; bar | 0.0.1.0: bar; st.release y 1 | 0.1.0.0: a=ld.acquire y; b=ld x", "ab",
     "00 01 11", "10", "", FIXED},
    // A release covers its own thread, not the other lanes of the warp.
    {"mp_other_lane",
     "0.0.0.0: st x 1; st.relaxed z 1 | 0.0.0.1: wait.relaxed z; st.release y 1 |"
     "0.1.0.0: a=ld.acquire y; b=ld x",
     "ab", "00 01 10 11", "", "", FIXED},

    // Store buffering. 8.10.6: only fence.sc forbids 00.
    {"sb", "st.relaxed x 1; a=ld.relaxed y | st.relaxed y 1; b=ld.relaxed x", "ab", "00 01 10 11",
     "", "", ANYWHERE},
    {"sb_release_acquire", "st.release x 1; a=ld.acquire y | st.release y 1; b=ld.acquire x", "ab",
     "00 01 10 11", "", "", ANYWHERE},
    {"sb_fences", "st.relaxed x 1; fence; a=ld.relaxed y | st.relaxed y 1; fence; b=ld.relaxed x",
     "ab", "00 01 10 11", "", "", ANYWHERE},
    {"sb_fences_sc", "st x 1; fence.sc; a=ld y | st y 1; fence.sc; b=ld x", "ab", "01 10 11", "00",
     "", ANYWHERE},
    {"sb_sc", "st.sc x 1; a=ld.sc y | st.sc y 1; b=ld.sc x", "ab", "01 10 11", "00", "", ANYWHERE},
    {"sb_two_scopes",
     "0.0.0.0: st.relaxed x 1; fence.sc.sys; a=ld.relaxed y |"
     "1.0.0.0: st.relaxed y 1; fence.sc.gpu; b=ld.relaxed x",
     "ab", "00 01 10 11", "", "", FIXED},

    // Load buffering. 8.10.4: allowed, except where a value would come out of thin air.
    {"lb", "a=ld.relaxed x; st.relaxed y 1 | b=ld.relaxed y; st.relaxed x 1", "ab", "00 01 10 11",
     "", "", ANYWHERE},
    {"lb_weak", "a=ld x; st y 1 | b=ld y; st x 1", "ab", "00 01 10 11", "", "", ANYWHERE},
    {"lb_dependent", "a=ld x; st y a | b=ld y; st x b", "ab", "00", "", "01 10 11", ANYWHERE},
    {"lb_release_acquire", "a=ld.relaxed x; st.release y 1 | b=ld.acquire y; st.relaxed x 1", "ab",
     "00 01 10", "11", "", SUFFICIENT},
    {"lb_fences", "a=ld.relaxed x; fence; st.relaxed y 1 | b=ld.relaxed y; fence; st.relaxed x 1",
     "ab", "00 01 10", "11", "", SUFFICIENT},

    // S, R and 2+2W: coherence follows causality (8.10.1), and only that.
    {"s", "st.relaxed x 2; st.relaxed y 1 | a=ld.relaxed y; st.relaxed x 1", "ax", "01 02 11 12",
     "", "", ANYWHERE},
    {"s_release_acquire", "st x 2; st.release y 1 | a=ld.acquire y; st x 1", "ax", "01 02 11", "12",
     "", ANYWHERE},
    {"r_fences", "st.relaxed x 1; fence; st.relaxed y 1 | st.relaxed y 2; fence; a=ld.relaxed x",
     "ay", "01 02 11 12", "", "", ANYWHERE},
    {"r_fences_sc",
     "st.relaxed x 1; fence.sc; st.relaxed y 1 | st.relaxed y 2; fence.sc; a=ld.relaxed x", "ay",
     "01 11 12", "02", "", ANYWHERE},
    {"2+2w", "st.relaxed x 1; st.release y 2 | st.relaxed y 1; st.release x 2", "xy", "11 12 21 22",
     "", "", ANYWHERE},
    {"2+2w_fences_sc",
     "st.relaxed x 1; fence.sc; st.relaxed y 2 | st.relaxed y 1; fence.sc; st.relaxed x 2", "xy",
     "12 21 22", "11", "", ANYWHERE},

    // Independent reads of independent writes: two readers may see them in different orders.
    {"iriw",
     "st.relaxed x 1 | st.relaxed y 1 | a=ld.acquire x; b=ld.acquire y | c=ld.acquire y; "
     "d=ld.acquire x",
     "abcd", "1010 1111 0000 0101 1011 1110", NULL, "", ANYWHERE},
    {"iriw_fences_sc",
     "st.relaxed x 1 | st.relaxed y 1 | a=ld.relaxed x; fence.sc; b=ld.relaxed y |"
     "c=ld.relaxed y; fence.sc; d=ld.relaxed x",
     "abcd", NULL, "1010", "", ANYWHERE},

    // Causality over three threads. 8.9.5: a write that is observed comes before what its reader
    // releases, and causality is transitive.
    {"wrc", "st.relaxed x 1 | a=ld.relaxed x; st.release y 1 | b=ld.acquire y; c=ld.relaxed x",
     "abc", NULL, "110", "", ANYWHERE},
    {"wrc_weak", "st x 1 | a=ld x; st.release y 1 | b=ld.acquire y; c=ld x", "abc", "110 111", NULL,
     "", ANYWHERE},
    {"isa2", "st x 1; st.release y 1 | a=ld.acquire y; st.release z 1 | b=ld.acquire z; c=ld x",
     "abc", NULL, "110", "", ANYWHERE},

    // One location. 8.10.5: strong accesses of one size are sequentially consistent.
    {"corr", "st.relaxed x 1 | a=ld.relaxed x; b=ld.relaxed x", "ab", "00 01 11", "10", "",
     ANYWHERE},
    {"corr_weak", "st x 1 | a=ld x; b=ld x", "ab", "00 01 10 11", "", "", ANYWHERE},
    {"corr_two_readers",
     "st.relaxed x 1 | st.relaxed x 2 | a=ld.relaxed x; b=ld.relaxed x | c=ld.relaxed x; "
     "d=ld.relaxed x",
     "abcd", NULL, "1221 2112", "", ANYWHERE},
    {"coww", "st.relaxed x 1; st.relaxed x 2 | a=ld.relaxed x; b=ld.relaxed x", "abx",
     "002 012 022 112 122 222", "102 202 212", "", ANYWHERE},
    {"cowr", "st.relaxed x 1; a=ld.relaxed x | st.relaxed x 2", "ax", "11 12 22", "", "01 02 21",
     ANYWHERE},
    {"corw", "a=ld.relaxed x; st.relaxed x 1 | st.relaxed x 2", "ax", "01 02 21", "22", "11 12",
     ANYWHERE},

    // Updates. 8.10.3: atomic if morally strong.
    {"atom_atom", "a=add x 1 | b=add x 1", "abx", "012 102", "001", "", ANYWHERE},
    {"atom_store", "a=add x 1 | st.relaxed x 5", "ax", "05 56", "01", "", ANYWHERE},
    {"atom_cas", "a=cas x 0 1 | b=cas x 0 2", "abx", "011 202", NULL, "", SUFFICIENT},
    {"atom_two_scopes", "a=add.cta x 1 | b=add.sys x 1", "abx", "012 102 001", "", "", OUTSIDE},
    {"atom_mp", "st x 1; a=add.release y 1 | b=add.acquire y 1; c=ld x", "bc", "00 01 11", "10", "",
     ANYWHERE},
    // The weak store races, but the strong ones stay atomic to the update.
    {"atom_past_weak", "st.relaxed y 1; st.relaxed y 2 | a=exch y 3 | st y 4", "ay", NULL, "13", "",
     ANYWHERE},
    // 8.11.1: a reduction is no acquire.
    {"red_mp", "st x 1; st.release y 1 | red y 1; fence; a=ld x", "ay", "01 02 11 12", "", "",
     ANYWHERE},
    {"atom_fence_mp", "st x 1; st.release y 1 | b=add y 1; fence; a=ld x", "ba", "00 01 11", "10",
     "", ANYWHERE},
    // 8.9.2: observation goes on through updates, and only through them.
    {"sequence_atom", "st x 1; st.release y 1 | a=add y 1 | b=ld.acquire y; c=ld x", "abc", NULL,
     "120", "", ANYWHERE},
    {"sequence_red", "st x 1; st.release y 3 | red y 1 | b=ld.acquire y; c=ld x", "bc", NULL, "40",
     "", ANYWHERE},
    {"sequence_store", "st x 1; st.release y 1 | st.relaxed y 2 | b=ld.acquire y; c=ld x", "bc",
     "00 01 11 20 21", "10", "", ANYWHERE},
    {"sequence_small_scope", "st x 1; st.release y 1 | a=add.cta y 1 | b=ld.acquire y; c=ld x",
     "abc", "120 121", NULL, "", OUTSIDE},
    {"sequence_own_red", "st x 1; fence; st.relaxed y 3 | red y 1; a=ld.acquire y; b=ld x", "ab",
     NULL, "40", "", ANYWHERE},
    // 8.9.4: a release, then strong writes of the same thread; strong reads, then an acquire.
    {"sequence_own", "st x 1; st.release y 1; st.relaxed y 2 | a=ld.acquire y; b=ld x", "ab",
     "00 01 11 21", "10 20", "", ANYWHERE},
    {"read_then_acquire",
     "st x 1; st.release y 1 | st.relaxed y 2 | a=ld.relaxed y; b=ld.acquire y; c=ld x", "abc",
     NULL, "120", "", ANYWHERE},
};

struct litmus_case {
  const struct litmus *litmus;
  struct litmus_run run;
  uint32_t seeds;
};

static bool list_has(const char *list, const char *outcome) {
  return list && strstr(list, outcome);
}

// Writes a line and returns false if an outcome of the list is not among those that were found.
static bool list_is_found(const char *list, const char *found, char *why, size_t bytes) {
  char outcome[8];
  int length = 0;
  for (const char *at = list; at && sscanf(at, "%7s%n", outcome, &length) == 1; at += length)
    if (!list_has(found, outcome)) {
      snprintf(why, bytes, "never found %s", outcome);
      return false;
    }
  return true;
}

// Returns false and one line if an outcome is missing or must not be.
static bool case_check(const struct litmus_case *c, char *why, size_t bytes) {
  const struct litmus *l = c->litmus;
  bool suffices = litmus_scope_suffices(c->run.placement, c->run.scope);
  struct litmus_program program;
  char found[512] = "", outcome[16];
  size_t length = 0;
  if (!litmus_parse(l->threads, &program, why, bytes))
    return false;
  for (uint32_t seed = 0; seed < c->seeds; seed++) {
    struct litmus_run run = c->run;
    struct litmus_result result;
    run.options.seed = seed;
    litmus_execute(&program, &run, &result);
    litmus_outcome(&result, l->observed, outcome);
    bool is_bad = list_has(l->never, outcome) || (suffices && list_has(l->forbidden, outcome));
    bool is_listed = list_has(l->allowed, outcome) || list_has(l->forbidden, outcome);
    if (is_bad || (l->allowed && l->forbidden && !is_listed)) {
      snprintf(why, bytes, "found %s with seed %u", outcome, seed);
      return false;
    }
    if (!list_has(found, outcome))
      length += (size_t)snprintf(found + length, sizeof found - length, "%s ", outcome);
  }
  return list_is_found(l->allowed, found, why, bytes) &&
         (suffices || list_is_found(l->forbidden, found, why, bytes));
}

static bool case_applies(const struct litmus *l, enum litmus_placement p, enum ptx_scope s) {
  return l->limit == INSIDE ? p == LITMUS_LANES || p == LITMUS_WARPS
         : l->limit == OUTSIDE
             ? (p == LITMUS_BLOCKS || p == LITMUS_DEVICES) && litmus_scope_suffices(p, s)
         : l->limit == FIXED      ? p == LITMUS_DEVICES && s == PTX_SYS
         : l->limit == SUFFICIENT ? litmus_scope_suffices(p, s)
                                  : true;
}

static void case_text(const struct litmus_case *c, const char *why, char *text, size_t bytes) {
  static const char *const placements[] = {"lanes", "warps", "blocks", "devices", "with the CPU"};
  static const char *const scopes[] = {".cta", ".gpu", ".sys"};
  snprintf(text, bytes, "%s, %s, %s: %s", c->litmus->name, placements[c->run.placement],
           scopes[c->run.scope], why);
}

// Checks every shape with every placement and scope. Returns how many cases failed; the text names
// the first.
static uint32_t shapes_check(enum ptx_memory_fault fault, const char *name, uint32_t seeds,
                             char *text, size_t bytes) {
  uint32_t failed = 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int p = LITMUS_LANES; p < LITMUS_PLACEMENTS; p++)
      for (int s = PTX_CTA; s <= PTX_SYS; s++) {
        struct litmus_case c = {.litmus = &shapes[i], .seeds = seeds};
        char why[640];
        c.run.options = (struct ptx_memory_options)PTX_MEMORY_OPTIONS_INIT;
        c.run.options.fault = fault;
        c.run.placement = (enum litmus_placement)p;
        c.run.scope = (enum ptx_scope)s;
        if ((name && strcmp(name, shapes[i].name) != 0) ||
            !case_applies(&shapes[i], c.run.placement, c.run.scope) ||
            case_check(&c, why, sizeof why))
          continue;
        if (!failed++)
          case_text(&c, why, text, bytes);
      }
  return failed;
}

static void litmus_tests_give_what_ptx_allows(void **state) {
  (void)state;
  char text[768];
  uint32_t seeds = (uint32_t)rondo_test_load(600, 400);
  if (shapes_check(PTX_FAULT_NONE, NULL, seeds, text, sizeof text))
    fail_msg("%s", text);
}

// For each mistake that the model can make, a shape that shows it.
static void litmus_tests_find_mistakes_of_the_model(void **state) {
  (void)state;
  static const struct {
    enum ptx_memory_fault fault;
    const char *shape;
  } mistakes[] = {
      {PTX_FAULT_NO_SCOPES, "mp_release_acquire"},
      {PTX_FAULT_NO_ACQUIRE, "mp_release_acquire"},
      {PTX_FAULT_NO_FENCE, "mp_fences"},
      {PTX_FAULT_NO_SC, "sb_fences_sc"},
      {PTX_FAULT_NO_COHERENCE, "corr"},
      {PTX_FAULT_NO_SEQUENCE, "sequence_atom"},
      {PTX_FAULT_NOT_ATOMIC, "atom_store"},
      {PTX_FAULT_NO_MEETING, "mp_barrier"},
      {PTX_FAULT_RED_ACQUIRES, "red_mp"},
      {PTX_FAULT_ALWAYS_NEWEST, "sb"},
      {PTX_FAULT_ALWAYS_LAST, "2+2w"},
      {PTX_FAULT_NEVER_LATER, "lb"},
      {PTX_FAULT_WARP_RELEASES, "mp_other_lane"},
  };
  char text[768];
  uint32_t seeds = (uint32_t)rondo_test_load(600, 400);
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    if (shapes_check(PTX_FAULT_NONE, mistakes[i].shape, seeds, text, sizeof text))
      fail_msg("without a mistake: %s", text);
    if (!shapes_check(mistakes[i].fault, mistakes[i].shape, seeds, text, sizeof text))
      fail_msg("%s does not show mistake %d", mistakes[i].shape, (int)mistakes[i].fault);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_memory", litmus_tests_give_what_ptx_allows),
      RONDO_NAMED_TEST("ptx_memory", litmus_tests_find_mistakes_of_the_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
