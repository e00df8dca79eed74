#include "runtime/api/api_algorithms.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "daemon/plan/build.h"
#include <rondo/rondo.h>

// Reads "KIND=NAME", and cuts it up.
static int pair_read(char *pair, uint8_t algorithms[RONDO_KIND_COUNT]) {
  char *name = strchr(pair, '=');
  int kind = 0;
  if (!name)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_ALGO takes KIND=NAME,..., not \"%s\"",
                            pair);
  *name++ = '\0';
  while (kind < RONDO_KIND_COUNT && strcmp(rondo_kind_name(kind), pair) != 0)
    kind++;
  if (kind == RONDO_KIND_COUNT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_ALGO: no kind of collective is \"%s\"",
                            pair);
  int algorithm = rondo_plan_algorithm_find(name);
  if (!rondo_plan_exists(kind, algorithm, 1))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_ALGO: %s has no algorithm \"%s\"", pair,
                            name);
  algorithms[kind] = (uint8_t)(algorithm + 1);
  return RONDO_SUCCESS;
}

int rondo_algorithms_read(uint8_t algorithms[RONDO_KIND_COUNT]) {
  const char *given = getenv("RONDO_ALGO");
  char *text = given ? strdup(given) : NULL, *rest = NULL;
  int status = RONDO_SUCCESS;
  if (given && !text)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory to read RONDO_ALGO");
  for (char *pair = text ? strtok_r(text, ",", &rest) : NULL; pair && status == RONDO_SUCCESS;
       pair = strtok_r(NULL, ",", &rest))
    status = pair_read(pair, algorithms);
  free(text);
  return status;
}
