#include "runtime/api/api_algorithms.h"

#include <stdlib.h>
#include <string.h>

#include "base/kind.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text_file.h"
#include "daemon/plan/build.h"
#include <rondo/rondo.h>

#define FILE_BYTES 65536u // no file is larger

// Where the text stands: kinds without a name of their own are those of the entry before.
struct reader {
  struct rondo_forced *forced;
  int kind; // RONDO_KIND_COUNT: none yet
};

// Reads a size such as 8, 64K or 2M.
static bool size_read(const char *text, uint64_t *bytes) {
  static const char units[] = "KMG";
  const char *end = rondo_number_read(text, UINT64_MAX >> 30, bytes);
  const char *unit = end && *end ? strchr(units, *end) : NULL;
  if (unit)
    *bytes <<= 10 * (unit - units + 1);
  return end && (*end == '\0' || (unit && end[1] == '\0'));
}

// Reads "NAME" or "NAME:SIZE", and cuts it up.
static int rule_read(struct reader *r, char *name) {
  struct rondo_forced *forced = r->forced;
  const char *kind = rondo_kind_name(r->kind);
  char *size = strchr(name, ':');
  uint64_t most_bytes = UINT64_MAX;
  if (size)
    *size++ = '\0';
  if (size && !size_read(size, &most_bytes))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: RONDO_ALGO: \"%s\" of %s is no size such as 8K", size, kind);
  bool is_choice = strcmp(name, "auto") == 0;
  int algorithm = rondo_plan_algorithm_find(name);
  if (!is_choice && !rondo_plan_exists(r->kind, algorithm, 1))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_ALGO: %s has no algorithm \"%s\"", kind,
                            name);
  if (forced->count == RONDO_MAX_FORCED)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_ALGO has more than %u entries",
                            RONDO_MAX_FORCED);
  forced->rules[forced->count++] = (struct rondo_forced_rule){
      most_bytes, (uint8_t)r->kind, (uint8_t)(is_choice ? 0 : algorithm + 1)};
  return RONDO_SUCCESS;
}

// Reads "KIND=RULE", or "RULE" for the kind before.
static int entry_read(struct reader *r, char *entry) {
  char *rule = strchr(entry, '=');
  if (rule) {
    *rule++ = '\0';
    r->kind = rondo_kind_find(entry);
    if (r->kind == RONDO_KIND_COUNT)
      return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "init: RONDO_ALGO: no kind of collective is \"%s\"", entry);
  }
  if (r->kind == RONDO_KIND_COUNT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: RONDO_ALGO takes KIND=NAME[:SIZE],..., not \"%s\"", entry);
  return rule_read(r, rule ? rule : entry);
}

static int text_read(struct rondo_forced *forced, char *text) {
  struct reader r = {forced, RONDO_KIND_COUNT};
  char *rest = NULL;
  int status = RONDO_SUCCESS;
  for (char *entry = strtok_r(text, ", \t\n", &rest); entry && status == RONDO_SUCCESS;
       entry = strtok_r(NULL, ", \t\n", &rest))
    status = entry_read(&r, entry);
  return status;
}

// A '#' begins a comment, to the end of its line.
static void comments_remove(char *text) {
  for (char *at = text; (at = strchr(at, '#'));)
    memset(at, ' ', strcspn(at, "\n"));
}

static int file_read(struct rondo_forced *forced, const char *path, char *text) {
  int error = rondo_text_file_read(path, text, FILE_BYTES);
  if (error)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_ALGO: %s: %s", path, strerror(error));
  comments_remove(text);
  return text_read(forced, text);
}

int rondo_algorithms_read(struct rondo_forced *forced) {
  const char *given = getenv("RONDO_ALGO");
  if (!given)
    return RONDO_SUCCESS;
  bool is_file = *given == '@';
  char *text = is_file ? malloc(FILE_BYTES) : strdup(given);
  if (!text)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory to read RONDO_ALGO");
  int status = is_file ? file_read(forced, given + 1, text) : text_read(forced, text);
  free(text);
  return status;
}
