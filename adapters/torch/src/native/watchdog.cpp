#include "watchdog.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

namespace rondo_torch {

namespace {

using work_ref = c10::intrusive_ptr<work>;

struct watchdog {
  std::mutex lock;
  std::condition_variable changed;
  bool is_started = false;
  std::vector<work_ref> works; // works[i]->watchdog_index is i + 1
  std::vector<work_ref> seeking;
  size_t next = 0; // the next of `works` to poll
  // A work on a device keeps memory of the device, and there may be no thread that waits for it.
  size_t on_devices = 0;
  clock::time_point wakes = clock::time_point::max();
};

// Never destroyed: its thread may outlive static objects.
watchdog *current = new watchdog;

// A child process lacks this thread, and its parent's works do not end in it.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { current = new watchdog; });

// The lock is held. A work of the parent process may have an index of the parent's watchdog.
bool is_kept(const watchdog &w, const work &one) {
  return one.watchdog_index && one.watchdog_index <= w.works.size() &&
         w.works[one.watchdog_index - 1].get() == &one;
}

// The lock is never held while a work is polled or its last reference is dropped.

void work_poll(work &one, bool is_due) {
  if (is_due)
    one.time_out();
  if (one.poll())
    watchdog_remove(one);
}

void works_poll(std::unique_lock<std::mutex> &hold, std::vector<work_ref> works, bool are_due) {
  hold.unlock();
  for (const work_ref &one : works)
    work_poll(*one, are_due);
  works.clear();
  hold.lock();
}

void time_out_due(watchdog &w, std::unique_lock<std::mutex> &hold) {
  std::vector<work_ref> due;
  clock::time_point now = clock::now();
  w.wakes = clock::time_point::max();
  for (const work_ref &one : w.works)
    if (one->deadline() <= now)
      due.push_back(one);
    else
      w.wakes = std::min(w.wakes, one->deadline());
  if (!due.empty()) // until they have ended
    w.wakes = std::min(w.wakes, now + std::chrono::seconds(1));
  works_poll(hold, std::move(due), true);
}

void find_senders(watchdog &w, std::unique_lock<std::mutex> &hold) {
  constexpr std::chrono::microseconds PAUSE(200);
  std::vector<work_ref> mine;
  mine.swap(w.seeking);
  hold.unlock();
  mine.erase(std::remove_if(mine.begin(), mine.end(),
                            [](const work_ref &one) { return one->try_recv_any(); }),
             mine.end());
  hold.lock();
  w.seeking.insert(w.seeking.end(), mine.begin(), mine.end());
  mine.clear();
  if (!w.seeking.empty())
    w.changed.wait_for(hold, PAUSE);
}

// Waits, and polls the works on devices every 100 ms.
void wait_and_poll_devices(watchdog &w, std::unique_lock<std::mutex> &hold) {
  constexpr std::chrono::milliseconds INTERVAL(100);
  clock::time_point until = clock::now() + INTERVAL;
  if (w.changed.wait_until(hold, std::min(w.wakes, until)) == std::cv_status::no_timeout)
    return;
  std::vector<work_ref> mine;
  for (const work_ref &one : w.works)
    if (one->is_on_device())
      mine.push_back(one);
  works_poll(hold, std::move(mine), false);
}

[[noreturn]] void watchdog_main() {
  watchdog &w = *current;
  std::unique_lock<std::mutex> hold(w.lock);
  for (;;) {
    if (w.wakes <= clock::now())
      time_out_due(w, hold);
    else if (!w.seeking.empty())
      find_senders(w, hold);
    else if (w.on_devices > 0)
      wait_and_poll_devices(w, hold);
    else if (w.wakes == clock::time_point::max())
      w.changed.wait(hold);
    else
      w.changed.wait_until(hold, clock::time_point(w.wakes));
  }
}

// The lock is held.
void work_add(watchdog &w, const work_ref &one, bool seeks_sender) {
  w.works.push_back(one);
  one->watchdog_index = w.works.size();
  if (seeks_sender)
    w.seeking.push_back(one);
  bool is_first = one->is_on_device() && w.on_devices++ == 0;
  bool is_sooner = one->deadline() < w.wakes || is_first;
  w.wakes = std::min(w.wakes, one->deadline());
  if (!w.is_started)
    std::thread(watchdog_main).detach();
  else if (is_sooner || seeks_sender)
    w.changed.notify_one();
  w.is_started = true;
}

} // namespace

void watchdog_add(const work_ref &one, bool seeks_sender) {
  constexpr size_t POLLED = 2;
  watchdog &w = *current;
  work_ref older[POLLED];
  {
    std::lock_guard<std::mutex> hold(w.lock);
    for (size_t i = 0; i < std::min(POLLED, w.works.size()); i++)
      older[i] = w.works[w.next++ % w.works.size()];
    work_add(w, one, seeks_sender);
  }
  for (const work_ref &each : older)
    if (each)
      work_poll(*each, false);
}

void watchdog_remove(work &one) {
  watchdog &w = *current;
  work_ref removed; // released after the lock
  std::lock_guard<std::mutex> hold(w.lock);
  if (!is_kept(w, one))
    return;
  w.on_devices -= one.is_on_device() ? 1 : 0;
  work_ref &at = w.works[one.watchdog_index - 1];
  removed = std::move(at);
  if (&at != &w.works.back()) {
    at = std::move(w.works.back());
    at->watchdog_index = one.watchdog_index;
  }
  w.works.pop_back();
  one.watchdog_index = 0;
}

void watchdog_poll() {
  watchdog &w = *current;
  std::vector<work_ref> all;
  {
    std::lock_guard<std::mutex> hold(w.lock);
    all = w.works;
  }
  for (const work_ref &one : all)
    work_poll(*one, false);
}

} // namespace rondo_torch
