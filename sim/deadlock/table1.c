#include "sim/deadlock/table1.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

// One row of Table 1. A shape {t, d, p} is 3D; a shape {groups of 3, groups of 8, extra} is free,
// with `extra` more GPUs in each group; a shape of zeros is the default grouping.
struct table1_row {
  const char *name, *also; // `also`: a letter that stands for the row
  bool sync, free;
  uint32_t shape[3], gpus, counts[2];
  double disorder, synchronisation, paper;
  const char *notes;
};

// Why a row cannot be expected to agree with the paper. The results tell which variants do agree.
#define RONDO_SIM_ORDER_NOTE                                                                       \
  "the paper does not say how a GPU orders its groups' collectives; the published code "           \
  "interleaves them"
#define RONDO_SIM_FALSE_NOTE                                                                       \
  "the paper gives the groups' sizes only; what the published detector reports here are chains "   \
  "of waits that do not close, and on sequential lists it reports about as many as the paper"

static const char order_note[] = RONDO_SIM_ORDER_NOTE;
static const char s3_note[] =
    RONDO_SIM_ORDER_NOTE "; the paper's text (2.4.3) has 0.49 % for this cell";
static const char s4_note[] =
    RONDO_SIM_ORDER_NOTE "; a lone skip is fatal or not, so row s3 and ten times its disorder give "
                         "4.6 %, which 32,000 rounds exclude";
static const char lost_note[] =
    "the paper gives the groups' sizes only; the published code loses what a GPU draws while its "
    "group waits, and so calls each round on such groups a deadlock, even without disorder";
static const char detector_note[] =
    "the published detector intersects sets of suspended GPUs instead of looking for a cycle, and "
    "the order of lists is left open";
static const char false_note[] = RONDO_SIM_FALSE_NOTE;
static const char y8_note[] = RONDO_SIM_FALSE_NOTE
    "; the paper's text names 6.94 %, but at 4e-5 and 4e-5 (row y9), and a growth by 468 % over "
    "row y7, which is 6.59 %";
static const char y9_note[] =
    RONDO_SIM_FALSE_NOTE "; the ratio is the text's figure for 4e-5 and 4e-5";

static const struct table1_row table1[] = {
    {"s1", "", false, false, {4, 4, 4}, 64, {400, 1200}, 1e-7, 0, 1.10, order_note},
    {"s2", "b", false, false, {4, 4, 4}, 64, {400, 1200}, 1e-6, 0, 9.97, order_note},
    {"s3", "", false, false, {8, 6, 64}, 3072, {400, 1200}, 1e-9, 0, 0.47, s3_note},
    {"s4", "", false, false, {8, 6, 64}, 3072, {400, 1200}, 1e-8, 0, 3.59, s4_note},
    {"s5", "a", false, true, {0, 0, 0}, 8, {161, 161}, 1e-5, 0, 1.21, ""},
    {"s6", "", false, true, {28, 4, 0}, 64, {400, 1200}, 1e-6, 0, 0.98, lost_note},
    {"s7", "", false, true, {28, 4, 2}, 128, {400, 1200}, 1e-5, 0, 9.45, lost_note},
    {"s8", "", false, true, {28, 4, 2}, 128, {400, 1200}, 1e-6, 0, 1.72, lost_note},
    {"y1", "", true, false, {4, 4, 4}, 64, {400, 1200}, 2e-3, 4e-3, 0.68, detector_note},
    {"y2", "c", true, false, {4, 4, 4}, 64, {400, 1200}, 4e-3, 4e-3, 1.38, detector_note},
    {"y3", "", true, false, {4, 4, 4}, 64, {400, 1200}, 4e-3, 2e-3, 0.32, detector_note},
    {"y4", "", true, false, {4, 4, 4}, 64, {800, 2400}, 4e-3, 4e-3, 2.56, detector_note},
    {"y5", "d", true, false, {8, 6, 64}, 3072, {400, 1200}, 8e-4, 8e-4, 1.56, detector_note},
    {"y6", "", true, true, {28, 4, 0}, 64, {400, 1200}, 4e-6, 4e-5, 0.81, false_note},
    {"y7", "e", true, true, {28, 4, 0}, 64, {400, 1200}, 4e-5, 4e-5, 1.16, false_note},
    {"y8", "", true, true, {28, 4, 0}, 64, {400, 1200}, 4e-5, 8e-5, 6.56, y8_note},
    {"y9", "", true, true, {28, 4, 0}, 64, {800, 2400}, 4e-5, 4e-5, 6.94, y9_note},
    {"y10", "", true, true, {28, 4, 2}, 128, {400, 1200}, 4e-5, 4e-5, 2.34, false_note},
};

enum { ROWS = sizeof(table1) / sizeof(table1[0]) };

static void groups_draw(struct rondo_sim_config *c, const struct table1_row *row) {
  c->grouping = RONDO_SIM_FREE_DRAWN;
  c->gpu_count = row->gpus;
  c->size_count = 2;
  c->sizes = rondo_sim_realloc(c->sizes, sizeof(*c->sizes) * 2);
  c->sizes[0] = (struct rondo_sim_group_sizes){row->shape[0], 3 + row->shape[2]};
  c->sizes[1] = (struct rondo_sim_group_sizes){row->shape[1], 8 + row->shape[2]};
  c->choice_count = 2;
  c->collective_choices = rondo_sim_realloc(c->collective_choices, sizeof(uint32_t) * 2);
  memcpy(c->collective_choices, row->counts, sizeof(uint32_t) * 2);
}

static void row_configure(struct rondo_sim_config *c, const struct table1_row *row) {
  c->model = row->sync ? RONDO_SIM_SYNCHRONISATION : RONDO_SIM_SINGLE_QUEUE;
  c->disorder = row->disorder;
  c->synchronisation = row->synchronisation;
  if (!row->free) {
    c->grouping = RONDO_SIM_3D;
    c->tensor = row->shape[0];
    c->data = row->shape[1];
    c->pipeline = row->shape[2];
    c->tensor_collectives = row->counts[0];
    c->data_collectives = row->counts[1];
  } else if (row->shape[0] > 0) {
    groups_draw(c, row);
  }
}

// Marks the rows that the list names.
static bool rows_mark(const char *wanted, bool *marked, struct rondo_sim_error *error) {
  char *copy = rondo_sim_strdup(wanted), *save = NULL;
  bool known = true;
  for (char *word = strtok_r(copy, ",", &save); word && known; word = strtok_r(NULL, ",", &save)) {
    known = false;
    for (size_t i = 0; i < ROWS; i++) {
      if (strcmp(word, table1[i].name) == 0 || strcmp(word, table1[i].also) == 0) {
        known = marked[i] = true;
      }
    }
    if (!known) {
      rondo_sim_refuse(
          error, "rows: \"%s\" is not a row of table1 (s1 to s8, y1 to y10, or a to e)", word);
    }
  }
  free(copy);
  return known;
}

bool rondo_sim_table1_add(struct rondo_sim_report *r, const char *wanted,
                          const struct rondo_sim_config *base, struct rondo_sim_error *error) {
  bool marked[ROWS] = {false};
  if (wanted && !rows_mark(wanted, marked, error)) {
    return false;
  }
  for (size_t i = 0; i < ROWS; i++) {
    if (!wanted || marked[i]) {
      struct rondo_sim_config c;
      rondo_sim_config_copy(&c, base);
      row_configure(&c, &table1[i]);
      struct rondo_sim_row *row = rondo_sim_report_add(r, table1[i].name, &c);
      row->paper = table1[i].paper / 100;
      row->notes = table1[i].notes;
      rondo_sim_config_fini(&c);
    }
  }
  return true;
}
