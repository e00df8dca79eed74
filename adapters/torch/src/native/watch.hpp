// One thread a process that ends works whose time is over, also those that nobody waits for.
#ifndef RONDO_ADAPTERS_TORCH_WATCH_HPP
#define RONDO_ADAPTERS_TORCH_WATCH_HPP

#include <c10/util/intrusive_ptr.h>

namespace rondo_torch {

class work;

// From now until watch_remove, which may come from any thread, also twice.
void watch_add(const c10::intrusive_ptr<work> &one);
void watch_remove(work *one);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_WATCH_HPP
