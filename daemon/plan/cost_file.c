#include "daemon/plan/cost_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/kind.h"
#include "base/number.h"
#include "daemon/plan/build.h"
#include <rondo/rondo.h>

#define FIRST_WORDS "rondo cost model "
#define MAX_PS 1000000000000000u // 1,000 s
#define MAX_WORD 64u

// ---------------------------------------------------------------------- writing ---

struct writer {
  char *text;
  size_t used;
};

static void __attribute__((format(printf, 2, 3)))
text_add(struct writer *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int added = vsnprintf(w->text + w->used, RONDO_COST_FILE_BYTES - w->used, format, args);
  va_end(args);
  if (added > 0)
    w->used += (size_t)added;
}

static uint64_t text_checksum(const char *text, size_t length) {
  return rondo_digest_bytes(UINT64_C(0xc057), text, length); // a number that names this use
}

static uint64_t ps_of(float ns) { return (uint64_t)((double)ns * 1000 + 0.5); }

static void row_print(struct writer *w, const struct rondo_cost_model *m,
                      const struct rondo_cost_row *row) {
  text_add(w, "row %s %s %s", rondo_cost_link_name(row->link), rondo_kind_name(row->kind),
           rondo_plan_algorithm_name(row->algorithm));
  for (uint32_t i = 0; i < m->rank_points; i++)
    for (uint32_t k = 0; k < m->size_points; k++)
      text_add(w, " %" PRIu64, ps_of(row->message_ns[i][k]));
  text_add(w, "\n");
}

static void points_print(struct writer *w, const char *name, const uint32_t *points,
                         uint32_t count) {
  text_add(w, "%s", name);
  for (uint32_t i = 0; i < count; i++)
    text_add(w, " %" PRIu32, points[i]);
  text_add(w, "\n");
}

size_t rondo_cost_file_print(const struct rondo_cost_file *file, char *text) {
  const struct rondo_cost_model *m = &file->model;
  struct writer w = {text, 0};
  text_add(&w, FIRST_WORDS "%u\ncores %" PRIu32 "\ntuning %s\n", RONDO_COST_FILE_VERSION, m->cores,
           file->tuning);
  points_print(&w, "ranks", m->ranks, m->rank_points);
  points_print(&w, "sizes", m->sizes, m->size_points);
  for (int i = 0; i < RONDO_COST_LINKS; i++)
    text_add(&w, "link %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
             rondo_cost_link_name(i), ps_of(m->alone[i].latency_ns), ps_of(m->alone[i].message_ns),
             ps_of(m->alone[i].byte_ns), ps_of(m->shared[i].message_ns),
             ps_of(m->shared[i].byte_ns));
  for (uint32_t i = 0; i < m->row_count; i++)
    row_print(&w, m, &file->rows[i]);
  text_add(&w, "end %016" PRIx64 "\n", text_checksum(text, w.used));
  return w.used;
}

// ---------------------------------------------------------------------- reading ---

struct reader {
  const char *at;
  uint32_t line;
  char *why;
};

static bool __attribute__((format(printf, 2, 3))) refuse(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(why, RONDO_COST_WHY_BYTES, format, args);
  va_end(args);
  return false;
}

static bool line_refuse(const struct reader *r, const char *what) {
  return refuse(r->why, "line %" PRIu32 " has no %s", r->line, what);
}

static bool word_is(struct reader *r, const char *word) {
  size_t length = strlen(word);
  if (strncmp(r->at, word, length) != 0)
    return line_refuse(r, word);
  r->at += length;
  return true;
}

static bool line_end(struct reader *r) {
  if (*r->at != '\n')
    return line_refuse(r, "end where it should end");
  r->at++;
  r->line++;
  return true;
}

// A word after a space; of at most MAX_WORD - 1 characters.
static bool word_read(struct reader *r, char *word) {
  size_t length = *r->at == ' ' ? strcspn(r->at + 1, " \n") : 0;
  if (length == 0 || length >= MAX_WORD)
    return line_refuse(r, "name");
  memcpy(word, r->at + 1, length);
  word[length] = '\0';
  r->at += 1 + length;
  return true;
}

static bool number_read(struct reader *r, uint64_t least, uint64_t most, uint64_t *value) {
  const char *end = *r->at == ' ' ? rondo_number_read(r->at + 1, most, value) : NULL;
  if (!end || *value < least)
    return line_refuse(r, "number that makes sense");
  r->at = end;
  return true;
}

static bool ns_read(struct reader *r, float *ns) {
  uint64_t ps = 0;
  if (!number_read(r, 1, MAX_PS, &ps))
    return false;
  *ns = (float)((double)ps / 1000);
  return true;
}

static bool points_read(struct reader *r, const char *name, uint32_t *points, uint32_t most,
                        uint32_t *count) {
  bool good = word_is(r, name);
  for (*count = 0; good && *r->at == ' '; (*count)++) {
    uint64_t value = 0;
    good = *count < most || line_refuse(r, "so few numbers as this library reads");
    good =
        good && number_read(r, *count ? (uint64_t)points[*count - 1] + 1 : 1, UINT32_MAX, &value);
    if (good)
      points[*count] = (uint32_t)value;
  }
  return good && (*count > 0 || line_refuse(r, "numbers")) && line_end(r);
}

static bool row_parse(struct reader *r, struct rondo_cost_file *file) {
  struct rondo_cost_model *m = &file->model;
  struct rondo_cost_row *row = &file->rows[m->row_count];
  char link[MAX_WORD], kind[MAX_WORD], algorithm[MAX_WORD];
  if (m->row_count == RONDO_COST_MAX_ROWS)
    return line_refuse(r, "place in this library");
  if (!word_is(r, "row") || !word_read(r, link) || !word_read(r, kind) || !word_read(r, algorithm))
    return false;
  row->link = (uint8_t)rondo_cost_link_find(link);
  row->kind = (uint8_t)rondo_kind_find(kind);
  row->algorithm = (uint8_t)rondo_plan_algorithm_find(algorithm);
  if (row->link == RONDO_COST_LINKS || !rondo_plan_exists(row->kind, row->algorithm, 2))
    return line_refuse(r, "link, kind and algorithm of this library");
  for (uint32_t i = 0; i < m->rank_points; i++)
    for (uint32_t k = 0; k < m->size_points; k++)
      if (!ns_read(r, &row->message_ns[i][k]))
        return false;
  m->row_count++;
  return line_end(r);
}

static bool link_parse(struct reader *r, struct rondo_cost_model *m, int link) {
  char name[MAX_WORD];
  if (!word_is(r, "link") || !word_read(r, name))
    return false;
  if (rondo_cost_link_find(name) != link)
    return line_refuse(r, rondo_cost_link_name(link));
  return ns_read(r, &m->alone[link].latency_ns) && ns_read(r, &m->alone[link].message_ns) &&
         ns_read(r, &m->alone[link].byte_ns) && ns_read(r, &m->shared[link].message_ns) &&
         ns_read(r, &m->shared[link].byte_ns) && line_end(r);
}

static bool tuning_parse(struct reader *r, struct rondo_cost_file *file) {
  if (!word_is(r, "tuning "))
    return false;
  size_t length = strcspn(r->at, "\n");
  if (length >= sizeof file->tuning)
    return line_refuse(r, "tuning that this library reads");
  memcpy(file->tuning, r->at, length);
  r->at += length;
  return line_end(r);
}

// All but the first line, and the last.
static bool body_parse(struct reader *r, struct rondo_cost_file *file) {
  struct rondo_cost_model *m = &file->model;
  uint64_t cores = 0;
  bool good = word_is(r, "cores") && number_read(r, 1, UINT32_MAX, &cores) && line_end(r) &&
              tuning_parse(r, file) &&
              points_read(r, "ranks", m->ranks, RONDO_COST_MAX_RANKS, &m->rank_points) &&
              points_read(r, "sizes", m->sizes, RONDO_COST_MAX_SIZES, &m->size_points);
  m->cores = (uint32_t)cores;
  for (int link = 0; link < RONDO_COST_LINKS && good; link++)
    good = link_parse(r, m, link);
  while (good && strncmp(r->at, "end ", 4) != 0)
    good = row_parse(r, file);
  return good;
}

bool rondo_cost_file_parse(struct rondo_cost_file *file, const char *text, char *why) {
  struct reader r = {text + sizeof FIRST_WORDS - 1, 1, why};
  uint64_t version = 0;
  char end[32];
  if (strncmp(text, FIRST_WORDS, sizeof FIRST_WORDS - 1) != 0 ||
      !(r.at = rondo_number_read(r.at, UINT32_MAX, &version)))
    return refuse(why, "is no cost model of Rondo");
  if (version != RONDO_COST_FILE_VERSION)
    return refuse(why,
                  "has version %" PRIu64 ", this library reads version %u: measure it again with "
                  "rondo-info tune",
                  version, RONDO_COST_FILE_VERSION);
  size_t length = strlen(text), tail = (size_t)snprintf(end, sizeof end, "end %016x\n", 0u);
  size_t body = length > tail ? length - tail : 0;
  (void)snprintf(end, sizeof end, "end %016" PRIx64 "\n", text_checksum(text, body));
  if (strcmp(text + body, end) != 0)
    return refuse(why, "is torn or was changed: its checksum is wrong");
  memset(file, 0, sizeof *file);
  if (!line_end(&r) || !body_parse(&r, file))
    return false;
  file->model.rows = file->rows;
  file->model.digest = text_checksum(text, body);
  return r.at == text + body || line_refuse(&r, "end here");
}
