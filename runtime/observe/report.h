// The stuck report.
#ifndef RONDO_RUNTIME_OBSERVE_REPORT_H
#define RONDO_RUNTIME_OBSERVE_REPORT_H

// From now on SIGUSR1 prints the stuck report of every job of this process, unless the application
// handles that signal itself or RONDO_REPORT_SIGNAL is 0. The first call counts.
void rondo_report_on_signal(void);

#endif // RONDO_RUNTIME_OBSERVE_REPORT_H
