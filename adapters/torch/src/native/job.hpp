// This process's rank in a job of Rondo: a context that process groups share. The default process
// group opens a job. Groups made from it use its job and have their own communicators. A group
// without a default group opens its own job. The context is for tensors on the CPU. The context for
// tensors on a CUDA device is a second job of the same ranks; a rank joins it when its first tensor
// on the device comes.
//
//   job::open or job::get_default -> next_key -> rondo_comm_create ...
//     -> device_context -> rondo_comm_create ... -> the last owner destroys it
#ifndef RONDO_ADAPTERS_TORCH_JOB_HPP
#define RONDO_ADAPTERS_TORCH_JOB_HPP

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <unistd.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <rondo/comm.h>
#include <rondo/rondo.h>

namespace rondo_torch {

using milliseconds = std::chrono::milliseconds;

struct group_settings {
  int rank, size;
  milliseconds timeout;
  std::string name;
  std::vector<int64_t> members; // ranks of the default group; empty: this is the default group
  bool is_separate = false;     // opens a job of its own: its ranks are no ranks of another group
};

class job {
public:
  // Joins a new job: rank 0 creates its id, and the other ranks wait for the id in the store.
  // Throws.
  static std::shared_ptr<job> open(const c10::intrusive_ptr<c10d::Store> &store,
                                   const group_settings &settings);

  // The job of the default process group, or null.
  static std::shared_ptr<job> get_default();
  static void set_default(const std::shared_ptr<job> &one);
  // Aborts all jobs, for the interpreter's exit.
  static void abort_all();

  ~job();
  job(const job &) = delete;
  job &operator=(const job &) = delete;

  // The key of a new communicator. Never repeated, and equal on all ranks that create communicators
  // of this name in equal numbers. Never waits.
  uint64_t next_key(const std::string &name);

  struct rondo_context context() const {
    return context_;
  }
  // The context for tensors of a CUDA device; a rank uses one device. The first call joins that
  // job, and waits until rank 0 has opened this one. Throws.
  struct rondo_context device_context(int device);

  // Whether this process was forked from the process that opened the job, and so cannot use it.
  bool is_forked() const;

  // The number of ranks if all are known to be on this machine, else 0.
  int local_size();

private:
  job(c10::intrusive_ptr<c10d::Store> store, const group_settings &settings)
      : settings_(settings), store_(std::move(store)),
        device_(config_make(settings, RONDO_BACKEND_CUDA)) {}
  static struct rondo_config config_make(const group_settings &s, int backend);
  void join();
  void publish_ids(struct rondo_config &host);
  // Joins the job on devices; the thread has set is_joining_device_, and does not hold the lock.
  struct rondo_context device_join(int device);

  const pid_t process_ = getpid();
  struct rondo_context context_ = {0};
  group_settings settings_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::string generation_; // the number of this job among those of the store
  std::mutex lock_;
  std::map<std::string, uint64_t> key_counts_; // by name
  std::atomic<int> local_size_{-1};            // -1: not known yet
  std::mutex device_lock_;                     // protects the rest, except while a thread joins
  std::condition_variable device_joined_;      // is_joining_device_ became false
  bool is_joining_device_ = false;             // a thread owns device_ and has_device_id_
  struct rondo_config device_;                 // how this rank joins on its device
  bool has_device_id_ = false;
  struct rondo_context device_context_ = {0};
};

// A 64-bit hash of a text and two numbers.
uint64_t key_hash(const std::string &text, uint64_t a, uint64_t b);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_JOB_HPP
