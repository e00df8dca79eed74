// A stand-in for NVIDIA's NCCL, over the stand-in for the CUDA driver: a shared library named
// libnccl.so.2 with the calls that windows need, between threads and between processes of this
// machine.
//
// A communicator is non-blocking: each call says ncclInProgress until all members have made it, and
// the thread that polls ncclCommGetAsyncError does the work of the call. Members meet in a file
// without a name, and the id names its process; memory of the stand-in's devices is a file, too,
// which the others open.
//
// RONDO_TEST_FAKE_NCCL plants failures. It is read at every call, as in
// "fail=ncclMemAlloc,version=22703":
//   version=N  this is what ncclGetVersion says
//   fail=CALL  it fails at once
//   async=CALL it fails later, as a communicator's error
//   stall=CALL it is never done
//   block=CALL it does not return until rondo_fake_nccl_unblock is called
//   team=N     only so many members are in one domain
//   astray=1   the kernel finds each member's memory where another's is
#ifndef RONDO_TESTS_SUPPORT_FAKE_NCCL_FAKE_NCCL_H
#define RONDO_TESTS_SUPPORT_FAKE_NCCL_FAKE_NCCL_H

#include <stdint.h>

// Lets all calls go that are blocked, and none block any more until RONDO_TEST_FAKE_NCCL says
// another.
__attribute__((visibility("default"))) void rondo_fake_nccl_unblock(void);

// Communicators, windows and memory that exist.
__attribute__((visibility("default"))) uint64_t rondo_fake_nccl_live(void);

#endif // RONDO_TESTS_SUPPORT_FAKE_NCCL_FAKE_NCCL_H
