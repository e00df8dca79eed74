// Keeps works and their tensors until the works have ended, even if no thread waits for them. One
// thread a process ends works whose timeout has expired, and looks for senders for receives from
// any source.
#ifndef RONDO_ADAPTERS_TORCH_WATCHDOG_HPP
#define RONDO_ADAPTERS_TORCH_WATCHDOG_HPP

#include "work.hpp"

namespace rondo_torch {

// Keeps `one` until watchdog_remove. Polls some older works too, so that works that no thread waits
// for do not accumulate.
void watchdog_add(const c10::intrusive_ptr<work> &one, bool seeks_sender);
// Any thread may call this at any time, also twice.
void watchdog_remove(work &one);

// Polls all works.
void watchdog_poll();

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_WATCHDOG_HPP
