// Device work: what a change under the job's lock leaves to be done on devices. The driver may wait
// for a device, and the device for a thread that needs the lock. So a thread collects the work
// under the lock, and does it without the lock before it goes on:
//
//   lock -> change, rondo_device_work_add ... -> rondo_job_unlock: { unlock -> work -> lock } ...
//
// There is work of four kinds: connector memory that a registration lacks (`want` of the job),
// plans that were not known when their collective was written to the device (rondo_match_unloaded),
// writes to devices (`writes` of a communicator), and memory of other processes that has to be
// page-locked or unmapped (rondo_mapped_work). One thread at a time writes for a communicator,
// which keeps the writes in order and the communicator and its registrations alive. Drivers
// whose devices the CPU accesses directly leave only plans.
#ifndef RONDO_RUNTIME_JOB_DEVICE_WORK_H
#define RONDO_RUNTIME_JOB_DEVICE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#define RONDO_DEVICE_WORK_NS UINT64_C(60000000000) // as long as the CUDA backend waits for a copy

struct rondo_communicator;
struct rondo_job;
struct rondo_match_entry;

// Lists a communicator, which has writes, for the next rondo_job_unlock. The lock is held.
void rondo_device_work_add(struct rondo_job *job, struct rondo_match_entry *m,
                           struct rondo_communicator *comm);

// Takes a communicator off the list and drops its writes. The lock is held.
void rondo_device_work_drop(struct rondo_job *job, struct rondo_communicator *comm);

// Waits until no other thread writes for the communicator. Returns false if that takes too long:
// then the memory of its members must not be freed. The lock is held, and released meanwhile.
bool rondo_device_work_await(struct rondo_job *job, const struct rondo_communicator *comm);

// Does the work, and releases the lock. Used instead of pthread_mutex_unlock by threads that may
// have opened, bound or settled registrations.
void rondo_job_unlock(struct rondo_job *job);

#endif // RONDO_RUNTIME_JOB_DEVICE_WORK_H
