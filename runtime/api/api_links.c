// The links between ranks: include/rondo/links.h. Checks arguments; runtime/links does the work.
#include <stdio.h>

#include <rondo/links.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/complete/callbacks.h"
#include "runtime/links/link_rates.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

// Returns what is wrong with the arguments, or null.
static const char *links_fault(const struct rondo_links *links) {
  if (!links || links->size != sizeof *links || links->version != RONDO_LINKS_VERSION)
    return "`links` is null or of another version";
  if (links->capacity && !links->ranks)
    return "`ranks` is null";
  if (rondo_callbacks_is_inside())
    return "a callback may not wait";
  return NULL;
}

static int links_measure(struct rondo_context ctx, struct rondo_links *links, uint64_t end_ns,
                         char *why) {
  struct rondo_rank *rank;
  const char *fault = links_fault(links);
  if (fault) {
    (void)snprintf(why, RONDO_REASON_BYTES, "%s", fault);
    return RONDO_ERR_INVALID;
  }
  int status = rondo_rank_pin(ctx, "links_measure", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (rank->member.device->driver->is_direct) {
    status = rondo_links_measure_rank(rank, links, end_ns, why);
  } else {
    (void)snprintf(why, RONDO_REASON_BYTES,
                   "only links of a context of the host backend are measured");
    status = RONDO_ERR_UNSUPPORTED;
  }
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_links_measure(struct rondo_context ctx, struct rondo_links *links, int64_t timeout_ns,
                        char *why) {
  char text[RONDO_REASON_BYTES] = "";
  int status = links_measure(ctx, links, rondo_deadline_ns(rondo_now_ns(), timeout_ns), text);
  if (status != RONDO_SUCCESS && *text)
    rondo_log(RONDO_LOG_ERROR, "links_measure: %s", text);
  if (why)
    (void)snprintf(why, RONDO_REASON_BYTES, "%s", status == RONDO_SUCCESS ? "" : text);
  return status;
}
