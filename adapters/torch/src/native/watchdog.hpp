// Keeps works, with their tensors, until they have ended, whether anybody waits for them or not. One
// thread a process ends those whose time is over, and looks for senders of those that seek one.
#ifndef RONDO_ADAPTERS_TORCH_WATCH_HPP
#define RONDO_ADAPTERS_TORCH_WATCH_HPP

#include <c10/util/intrusive_ptr.h>

namespace rondo_torch {

class work;

// From now until watch_remove, which may come from any thread, also before and twice. Looks whether some older
// ones have ended, so that works that nobody waits for do not pile up.
void watch_add(const c10::intrusive_ptr<work> &one, bool seeks);
void watch_remove(work *one);

// Looks at all of them.
void watch_sweep();

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_WATCH_HPP
