// A home is this process's place in one job of Rondo: a context, which the process groups that live
// in it share. The default process group makes one; groups made from it live there, each with
// communicators of its own. A group whose ranks have no common default group here makes a home for itself.
// A home is for memory of the CPU; what is for that of a CUDA device is another job of the same ranks, which
// each rank joins when its first tensor on the device comes.
//
//   home::open or home::of_default -> group keys -> rondo_comm_create ... -> the last owner lets go
//     -> on_device -> rondo_comm_create ...
#ifndef RONDO_ADAPTERS_TORCH_HOME_HPP
#define RONDO_ADAPTERS_TORCH_HOME_HPP

#include <atomic>
#include <chrono>
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

struct home_settings {
  int rank, size;
  milliseconds timeout; // for meeting the other ranks
};

class home {
public:
  // Joins a job of its own: rank 0 makes its id, and the others find it in the store. Only those wait,
  // and only for rank 0. Throws.
  static std::shared_ptr<home> open(const c10::intrusive_ptr<c10d::Store> &store,
                                    const home_settings &settings);

  // The one of the default process group, or null; and what makes it that.
  static std::shared_ptr<home> of_default();
  static void set_default(const std::shared_ptr<home> &one);
  // Ends all jobs, with what is outstanding: for the interpreter's end.
  static void abort_all();

  ~home();
  home(const home &) = delete;
  home &operator=(const home &) = delete;

  // The key of a new communicator: equal on all ranks that make communicators of this name in
  // equal numbers, and never given twice. Waits for nobody.
  uint64_t key_of(const std::string &name);

  struct rondo_context context() const {
    return context_;
  }
  // The context for tensors of a CUDA device. Joins the job of these at the first call, which waits for nobody but for
  // rank 0 to have made its home. A rank uses one device. Throws.
  struct rondo_context on_device(int device);

  // Whether it belongs to the process from which this one was forked, where nothing of it can be used.
  bool is_inherited() const;

  // The number of its ranks if all are known to be on this machine, else 0.
  int ranks_here();

private:
  // How a rank comes into a job.
  struct door {
    int backend; // enum rondo_backend
    int device;
    struct rondo_unique_id id;
  };

  home(c10::intrusive_ptr<c10d::Store> store, const home_settings &settings)
      : settings_(settings), store_(std::move(store)) {}
  void enter();
  void give_ids(door &by_host);
  static struct rondo_context join(const home_settings &settings, const door &by);

  const pid_t process_ = getpid();
  struct rondo_context context_ = {0};
  home_settings settings_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::string generation_; // which of the store's jobs this is
  std::mutex lock_;
  std::map<std::string, uint64_t> made_; // names, and how many communicators of each
  std::atomic<int> ranks_here_{-1};      // -1: it is not known yet
  std::mutex device_lock_;               // over what follows
  door by_device_{RONDO_BACKEND_CUDA, -1, {}};
  bool has_device_id_ = false;
  struct rondo_context device_context_ = {0};
};

// A number that follows from a text and two numbers, spread over 64 bits.
uint64_t spread(const std::string &text, uint64_t a, uint64_t b);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_HOME_HPP
