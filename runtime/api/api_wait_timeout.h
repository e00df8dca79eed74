// The report on a run that did not end within the time that its caller was willing to wait.
#ifndef RONDO_RUNTIME_API_API_WAIT_TIMEOUT_H
#define RONDO_RUNTIME_API_API_WAIT_TIMEOUT_H

#include <stdint.h>

struct rondo_awaited;

// Logs the run and the stuck report, and writes the flight records, if the rank's configuration
// asks for reports (report_on_timeout) and `timeout_ns` is not 0.
void rondo_wait_report_timeout(const struct rondo_awaited *run, int64_t timeout_ns);

#endif // RONDO_RUNTIME_API_API_WAIT_TIMEOUT_H
