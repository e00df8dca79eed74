// A file of any content must be read, judged and reported on without a crash, in all three forms.
// Built once a format: each has a corpus of its own.
#include "sim/analyse/read.h"
#include "sim/analyse/report.h"
#include "tests/support/analyse_input.h"
#include "tests/support/fuzz.h"

// Reads the input as the file of one rank.
static void record_read(struct rondo_analyse_record *r, int64_t rank, const uint8_t *data,
                        size_t size) {
  struct rondo_analyse_input in;
  rondo_analyse_record_init(r, "input");
  r->rank_hint = rank;
  r->rank_named = true;
  rondo_test_input(&in, data, size);
  rondo_analyse_read(r, &in);
  rondo_analyse_input_close(&in);
}

static void report_all(const struct rondo_analyse_report *report) {
  struct rondo_sim_text text = {0};
  rondo_analyse_report_text(&text, report);
  rondo_analyse_report_html(&text, report);
  rondo_sim_text_clear(&text);
  rondo_analyse_report_json(&text, report);
  RONDO_FUZZ_CHECK(strncmp(rondo_sim_text_str(&text), "{\n", 2) == 0);
  rondo_sim_text_fini(&text);
}

// Two ranks: one file is whole, the other the front half of it, so that they differ.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_analyse_record records[2];
  const struct rondo_analyse_group_hints hints = {0};
  record_read(&records[0], 0, data, size);
  record_read(&records[1], 1, data, size / 2);
  for (int family = 0; family < RONDO_ANALYSE_FAMILY_COUNT; family++) {
    struct rondo_analyse_job job;
    struct rondo_analyse_analysis analysis;
    const struct rondo_analyse_analysis *list[] = {&analysis};
    if (!rondo_analyse_job_init(&job, (enum rondo_analyse_family)family, records, 2, &hints))
      continue;
    rondo_analyse_analysis_init(&analysis, &job);
    struct rondo_analyse_report report = {
        .analyses = list, .analysis_count = 1, .records = records, .record_count = 2};
    report_all(&report);
    rondo_analyse_analysis_fini(&analysis);
    rondo_analyse_job_fini(&job);
  }
  rondo_analyse_record_fini(&records[0]);
  rondo_analyse_record_fini(&records[1]);
  return 0;
}
