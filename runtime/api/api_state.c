// State that all members hold: include/rondo/state.h. Checks arguments; runtime/state does the
// work.
#include <stdio.h>
#include <string.h>

#include <rondo/state.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/complete/callbacks.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/state/block_hash.h"
#include "runtime/state/state_sync.h"

#define MAX_TENSOR_BYTES (UINT64_C(1) << 60)

static bool name_is_valid(const char *name) {
  size_t length = name ? strnlen(name, RONDO_STATE_NAME_BYTES) : 0;
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)name[i] < ' ' || name[i] == 127)
      return false;
  return length > 0 && length < RONDO_STATE_NAME_BYTES;
}

// Returns what is wrong with a tensor, or null.
static const char *tensor_fault(const struct rondo_state_tensor *t) {
  size_t elem_bytes = rondo_dtype_bytes(t->dtype);
  if (!name_is_valid(t->name))
    return "has no name, or one that is too long or has control characters";
  if (!elem_bytes)
    return "has a type that does not exist";
  if (t->count > MAX_TENSOR_BYTES / elem_bytes)
    return "is too large";
  if (t->count && !t->memory)
    return "has no memory";
  return NULL;
}

// Checks a state. Returns RONDO_SUCCESS or RONDO_ERR_INVALID; then writes the reason to `why`.
static int state_check(const struct rondo_state *state, char *why) {
  const char *fault = NULL;
  if (!state || state->size != sizeof *state || state->version != RONDO_STATE_VERSION)
    fault = "`state` is null or of another version";
  else if (state->strategy < 0 || state->strategy > RONDO_STATE_RECEIVE_ONLY)
    fault = "no such strategy";
  else if (state->is_partial > 1 || state->revision == UINT64_MAX)
    fault = "`is_partial` or `revision` is out of range";
  else if (state->tensor_count && !state->tensors)
    fault = "`tensors` is null";
  else if (rondo_callbacks_is_inside())
    fault = "a callback may not wait";
  for (uint32_t i = 0; !fault && i < state->tensor_count; i++) {
    const char *tensor = tensor_fault(&state->tensors[i]);
    if (!tensor)
      continue;
    (void)snprintf(why, RONDO_REASON_BYTES, "tensor %u %s", i, tensor);
    return RONDO_ERR_INVALID;
  }
  (void)snprintf(why, RONDO_REASON_BYTES, "%s", fault ? fault : "");
  return fault ? RONDO_ERR_INVALID : RONDO_SUCCESS;
}

// Says what this build or this rank cannot do; or null.
static const char *unsupported_reason(const struct rondo_rank *rank) {
  if (!rondo_block_hash_select())
    return "the library was built without xxHash (Debian: libxxhash-dev)";
  if (!rank->member.device->driver->is_direct)
    return "only tensors that the CPU can access are synchronised, on a context of the host "
           "backend";
  return NULL;
}

static int state_sync(struct rondo_context ctx, struct rondo_state *state, uint64_t end_ns,
                      struct rondo_state_report *report, char *why) {
  struct rondo_rank *rank;
  int status = state_check(state, why);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_rank_pin(ctx, "state_sync", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  const char *unsupported = unsupported_reason(rank);
  if (unsupported) {
    (void)snprintf(why, RONDO_REASON_BYTES, "%s", unsupported);
    status = RONDO_ERR_UNSUPPORTED;
  } else {
    status = rondo_state_sync_rank(rank, state, end_ns, report, why);
  }
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_state_sync(struct rondo_context ctx, struct rondo_state *state, int64_t timeout_ns,
                     struct rondo_state_report *report, char *why) {
  char text[RONDO_REASON_BYTES] = "";
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  int status = state_sync(ctx, state, end_ns, report, text);
  if (status != RONDO_SUCCESS && *text)
    rondo_log(RONDO_LOG_ERROR, "state_sync: %s", text);
  if (why)
    (void)snprintf(why, RONDO_REASON_BYTES, "%s", status == RONDO_SUCCESS ? "" : text);
  return status;
}
