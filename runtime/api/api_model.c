#include "runtime/api/api_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/text_file.h"
#include <rondo/rondo.h>

// Warns once a process if the model comes from a machine with another number of cores.
static void model_compare_cores(const struct rondo_cost_file *file, const char *path) {
  static uint32_t has_warned;
  uint32_t cores = rondo_cores_count();
  if (file->model.cores == cores || rondo_fetch_add_relaxed_u32(&has_warned, 1) > 0)
    return;
  rondo_log(RONDO_LOG_WARN,
            "init: RONDO_COST_MODEL: %s was measured with %u cores, and this process has %u; "
            "rondo-info tune measures it again",
            path, file->model.cores, cores);
}

int rondo_model_read(struct rondo_cost_file **file) {
  const char *path = getenv("RONDO_COST_MODEL");
  char why[RONDO_COST_WHY_BYTES];
  *file = NULL;
  if (!path || !*path)
    return RONDO_SUCCESS;
  char *text = malloc(RONDO_COST_FILE_BYTES);
  struct rondo_cost_file *read = malloc(sizeof *read);
  int status = text && read ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  int error = text && read ? rondo_text_file_read(path, text, RONDO_COST_FILE_BYTES) : 0;
  if (status != RONDO_SUCCESS)
    (void)RONDO_LOG_REFUSE(status, "init: no memory to read RONDO_COST_MODEL");
  else if (error)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_COST_MODEL: %s: %s", path,
                              strerror(error));
  else if (!rondo_cost_file_parse(read, text, why))
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: RONDO_COST_MODEL: %s %s", path, why);
  free(text);
  if (status == RONDO_SUCCESS)
    model_compare_cores(read, path);
  if (status == RONDO_SUCCESS)
    *file = read;
  else
    free(read);
  return status;
}
