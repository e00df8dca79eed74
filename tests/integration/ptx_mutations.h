// Faults planted into the PTX of the daemon's kernel, each of which some seed of test_cuda_seeds
// must notice.
#ifndef RONDO_TESTS_INTEGRATION_PTX_MUTATIONS_H
#define RONDO_TESTS_INTEGRATION_PTX_MUTATIONS_H

#include "base/explore.h"
#include "tests/support/ptx/ptx_mutate.h"

struct ptx_named_mutation {
  const char *name;
  struct ptx_mutation mutation;
  uint32_t seeds; // seeds from 0 that are tried; one of them must notice it
  // In place of a mutation: a fault of the explorer, for PTX with all faults (RONDO_FAULT_IN_TEXT).
  enum rondo_fault fault;
};

static const struct ptx_named_mutation ptx_mutations[] = {
    {"b1_cta", {"B1", "atom.cas", ".gpu", ".cta", 0}, 10, RONDO_FAULT_NONE},
    {"b2_relaxed", {"B2", "ld.acquire", ".acquire", ".relaxed", 0}, 20, RONDO_FAULT_NONE},
    {"c1_relaxed", {"C1", "fence.acq_rel", "fence", NULL, 0}, 10, RONDO_FAULT_NONE},
    {"c1_gpu", {"C1", "fence.acq_rel", ".sys", ".gpu", 0}, 10, RONDO_FAULT_NONE},
    {"c2_relaxed", {"C2", "ld.acquire", ".acquire", ".relaxed", 0}, 10, RONDO_FAULT_NONE},
    {"c2_cta", {"C2", "ld.acquire", ".sys", ".cta", 0}, 10, RONDO_FAULT_NONE},
    {"c3_relaxed", {"C3", "fence.acq_rel", "fence", NULL, 0}, 10, RONDO_FAULT_NONE},
    {"c4_reserve_relaxed", {"C4", "ld.acquire", ".acquire", ".relaxed", 1}, 10, RONDO_FAULT_NONE},
    {"c4_all_relaxed", {"C4", "ld.acquire", ".acquire", ".relaxed", 0}, 10, RONDO_FAULT_NONE},
    {"d2_relaxed", {"D2", "ld.acquire", ".acquire", ".relaxed", 0}, 10, RONDO_FAULT_NONE},
    {"d3_relaxed", {"D3", "st.release", ".release", ".relaxed", 0}, 10, RONDO_FAULT_NONE},
    {"d3_gpu", {"D3", "st.release", ".sys", ".gpu", 0}, 10, RONDO_FAULT_NONE},
    {"g2_cta", {"G2", "ld.acquire", ".sys", ".cta", 0}, 10, RONDO_FAULT_NONE},
    {"l3_gpu", {"L3", "st.release", ".sys", ".gpu", 0}, 10, RONDO_FAULT_NONE},
    {"q1_fence", {"Q1", "fence.acq_rel", "fence", NULL, 0}, 10, RONDO_FAULT_NONE},
    {"q1_cta", {"Q1", "fence.acq_rel", ".sys", ".cta", 0}, 10, RONDO_FAULT_NONE},
    {"q1_aside", {"Q1", "st.volatile", "]", "+8]", 0}, 10, RONDO_FAULT_NONE},
    {"s1_relaxed", {"S1", "fence.acq_rel", "fence", NULL, 0}, 10, RONDO_FAULT_NONE},
    {"s1_cta", {"S1", "fence.acq_rel", ".gpu", ".cta", 0}, 10, RONDO_FAULT_NONE},
    {"s2_relaxed", {"S2", "ld.acquire", ".acquire", ".relaxed", 0}, 10, RONDO_FAULT_NONE},
    {"s2_gpu", {"S2", "ld.acquire", ".sys", ".gpu", 0}, 10, RONDO_FAULT_NONE},
    {"s3_relaxed", {"S3", "st.release", ".release", ".relaxed", 0}, 10, RONDO_FAULT_NONE},
    {"s3_update",
     {"S3", "st.release", "st.release.sys.b32", "red.release.sys.max.u32", 0},
     10,
     RONDO_FAULT_NONE},
    {"s4_relaxed", {"S4", "ld.acquire", ".acquire", ".relaxed", 0}, 10, RONDO_FAULT_NONE},
    {"barrier_first_missing",
     {"barrier: first command", "barrier.cta.sync", "barrier", NULL, 0},
     10,
     RONDO_FAULT_NONE},
    {"barrier_carried_out_missing",
     {"barrier: carried out", "barrier.cta.sync", "barrier", NULL, 0},
     10,
     RONDO_FAULT_NONE},
    {"barrier_next_missing",
     {"barrier: next command", "barrier.cta.sync", "barrier", NULL, 0},
     10,
     RONDO_FAULT_NONE},
    {"barrier_last_missing",
     {"barrier: last command", "barrier.cta.sync", "barrier", NULL, 0},
     10,
     RONDO_FAULT_NONE},
    {"barrier_second_missing",
     {NULL, "barrier.cta.sync", "barrier", NULL, 2},
     10,
     RONDO_FAULT_NONE},
    {"barrier_third_missing", {NULL, "barrier.cta.sync", "barrier", NULL, 3}, 10, RONDO_FAULT_NONE},
    {"barrier_count", {NULL, "barrier.cta.sync", ", %r", ", 32; //", 1}, 10, RONDO_FAULT_NONE},
    {"lane_0", {"lane 0", "setp", "setp.ne", "setp.lt", 0}, 10, RONDO_FAULT_NONE},
    {"context_alignment", {NULL, "ld.shared.v4.u32", "]", "+4]", 0}, 10, RONDO_FAULT_NONE},
    {"data_alignment", {NULL, "ld.global.v4.u32", "]", "+4]", 0}, 10, RONDO_FAULT_NONE},
    {"fault_context_not_saved", {0}, 10, RONDO_FAULT_CONTEXT_NOT_SAVED},
    {"fault_cqe_early", {0}, 10, RONDO_FAULT_CQE_EARLY},
    {"fault_credit_before_read", {0}, 10, RONDO_FAULT_CREDIT_BEFORE_READ},
    {"fault_credit_twice", {0}, 10, RONDO_FAULT_CREDIT_TWICE},
    {"fault_doorbell_ignored", {0}, 10, RONDO_FAULT_DOORBELL_IGNORED},
    {"fault_lap_mark_off", {0}, 10, RONDO_FAULT_LAP_MARK_OFF},
    {"fault_last_peer_alone", {0}, 20, RONDO_FAULT_LAST_PEER_ALONE},
    {"fault_no_drain", {0}, 10, RONDO_FAULT_NO_DRAIN},
    {"fault_publish_before_data", {0}, 10, RONDO_FAULT_PUBLISH_BEFORE_DATA},
    {"fault_quit_does_not_save", {0}, 10, RONDO_FAULT_QUIT_DOES_NOT_SAVE},
    {"fault_quit_drops_work", {0}, 10, RONDO_FAULT_QUIT_DROPS_WORK},
    {"fault_sq_overrun", {0}, 10, RONDO_FAULT_SQ_OVERRUN},
    {"fault_stream_early", {0}, 10, RONDO_FAULT_STREAM_EARLY},
    {"fault_budget_never_ends", {0}, 20, RONDO_FAULT_BUDGET_NEVER_ENDS},
};

#endif // RONDO_TESTS_INTEGRATION_PTX_MUTATIONS_H
