// Keeps works and their tensors until the works have ended, even if no thread waits for them. One
// thread a process ends works whose timeout has expired, and looks for senders for receives from
// any source.
#ifndef RONDO_ADAPTERS_TORCH_WATCHDOG_HPP
#define RONDO_ADAPTERS_TORCH_WATCHDOG_HPP

#include <chrono>
#include <cstddef>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace rondo_torch {

using clock = std::chrono::steady_clock;

// What the watchdog calls of a work. Never with a lock of its own held.
class watched {
public:
  // Polls the work. True: it has ended.
  virtual bool poll() = 0;
  // The timeout has expired: ends what is outstanding.
  virtual void time_out() = 0;
  // Starts a receive from any source if a rank has sent. True: it has started, or did before.
  virtual bool try_recv_any() = 0;
  virtual clock::time_point deadline() const = 0;
  virtual bool is_on_device() const = 0;

  size_t watchdog_index = 0; // the watchdog's

protected:
  ~watched() = default;
};

// Keeps `work` until watchdog_remove. Polls some older works too, so that works that no thread
// waits for do not accumulate.
void watchdog_add(const c10::intrusive_ptr<c10d::Work> &work, watched *one, bool seeks_sender);
// Any thread may call this at any time, also twice.
void watchdog_remove(watched *one);

// Polls all works.
void watchdog_poll();

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_WATCHDOG_HPP
