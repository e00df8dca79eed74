// Calls on one rank's end of a communicator: making them, waiting for them, probing and failing.
//
// The functions behind include/rondo/comm.h. The caller has pinned the context and the end
// (rondo_comm_pin) and has checked the arguments.
#ifndef RONDO_RUNTIME_ORDER_COMM_CALL_H
#define RONDO_RUNTIME_ORDER_COMM_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/comm.h>

struct rondo_comm_end;

// What a call asks for. `desc` has no id, group or priority: those of the communicator are used.
struct rondo_comm_call_request {
  const struct rondo_collective_desc *desc;
  const struct rondo_run_args *args;
  void *stream;
  bool is_on_stream;
};

// Makes a call. Writes its ticket if `ticket` is not null. Returns what rondo_comm_call returns.
int rondo_comm_end_call(struct rondo_comm_end *end, const struct rondo_comm_call_request *request,
                        struct rondo_ticket *ticket);

// Waits for a call, or for all calls so far if `ticket` is null, at most `timeout_ns`. If the
// collective of the call was deregistered before, all its runs succeeded, and so does this call.
// Returns what rondo_comm_wait returns.
int rondo_comm_end_wait(struct rondo_comm_end *end, const struct rondo_ticket *ticket,
                        int64_t timeout_ns);
// Waits until all calls so far have ended. Returns RONDO_SUCCESS or RONDO_ERR_TIMEOUT.
int rondo_comm_end_wait_all(struct rondo_comm_end *end, int64_t timeout_ns);
// Returns what rondo_comm_test returns.
int rondo_comm_end_test(struct rondo_comm_end *end, const struct rondo_ticket *ticket);

// Attaches a callback to a call, which gets RONDO_SUCCESS if the collective of the call was
// deregistered. Returns what rondo_comm_notify returns.
int rondo_comm_end_notify(struct rondo_comm_end *end, const struct rondo_ticket *ticket,
                          rondo_callback callback, void *arg);

// Writes to `what` the next send_recv that position `from` has called towards this rank. Returns
// what rondo_comm_probe returns.
int rondo_comm_end_probe(struct rondo_comm_end *end, uint32_t from,
                         struct rondo_collective_desc *what);

// RONDO_SUCCESS, or the status with which the communicator has failed.
int rondo_comm_end_state(const struct rondo_comm_end *end);

// Ends all calls, here and on the other members, for good. The first status stays. Does not take
// the communicator's own lock, which a call may hold for long.
void rondo_comm_end_fail(struct rondo_comm_end *end, int status, const char *why);

void rondo_comm_end_counters(struct rondo_comm_end *end, struct rondo_comm_counters *out);

#endif // RONDO_RUNTIME_ORDER_COMM_CALL_H
