#include "watchdog.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

namespace rondo_torch {

namespace {

struct entry {
  c10::intrusive_ptr<c10d::Work> work;
  watched *one = nullptr;
};

struct watchdog {
  std::mutex lock;
  std::condition_variable changed;
  bool is_started = false;
  std::vector<entry> works; // works[i].one->watchdog_index is i + 1
  std::vector<entry> seeking;
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
bool is_kept(const watchdog &w, const watched *one) {
  return one->watchdog_index && one->watchdog_index <= w.works.size() &&
         w.works[one->watchdog_index - 1].one == one;
}

// The lock is never held while a work is polled or its last reference is dropped.

void entry_poll(const entry &e, bool is_due) {
  if (is_due)
    e.one->time_out();
  if (e.one->poll())
    watchdog_remove(e.one);
}

void entries_poll(std::unique_lock<std::mutex> &hold, std::vector<entry> entries, bool are_due) {
  hold.unlock();
  for (const entry &e : entries)
    entry_poll(e, are_due);
  entries.clear();
  hold.lock();
}

void time_out_due(watchdog &w, std::unique_lock<std::mutex> &hold) {
  std::vector<entry> due;
  clock::time_point now = clock::now();
  w.wakes = clock::time_point::max();
  for (const entry &e : w.works)
    if (e.one->deadline() <= now)
      due.push_back(e);
    else
      w.wakes = std::min(w.wakes, e.one->deadline());
  if (!due.empty()) // until they have ended
    w.wakes = std::min(w.wakes, now + std::chrono::seconds(1));
  entries_poll(hold, std::move(due), true);
}

void find_senders(watchdog &w, std::unique_lock<std::mutex> &hold) {
  constexpr std::chrono::microseconds PAUSE(200);
  std::vector<entry> mine;
  mine.swap(w.seeking);
  hold.unlock();
  mine.erase(std::remove_if(mine.begin(), mine.end(),
                            [](const entry &e) { return e.one->try_recv_any(); }),
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
  std::vector<entry> mine;
  for (const entry &e : w.works)
    if (e.one->is_on_device())
      mine.push_back(e);
  entries_poll(hold, std::move(mine), false);
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
void entry_add(watchdog &w, const entry &e, bool seeks_sender) {
  w.works.push_back(e);
  e.one->watchdog_index = w.works.size();
  if (seeks_sender)
    w.seeking.push_back(e);
  bool is_first = e.one->is_on_device() && w.on_devices++ == 0;
  bool is_sooner = e.one->deadline() < w.wakes || is_first;
  w.wakes = std::min(w.wakes, e.one->deadline());
  if (!w.is_started)
    std::thread(watchdog_main).detach();
  else if (is_sooner || seeks_sender)
    w.changed.notify_one();
  w.is_started = true;
}

} // namespace

void watchdog_add(const c10::intrusive_ptr<c10d::Work> &work, watched *one, bool seeks_sender) {
  constexpr size_t POLLED = 2;
  watchdog &w = *current;
  entry older[POLLED];
  {
    std::lock_guard<std::mutex> hold(w.lock);
    for (size_t i = 0; i < std::min(POLLED, w.works.size()); i++)
      older[i] = w.works[w.next++ % w.works.size()];
    entry_add(w, {work, one}, seeks_sender);
  }
  for (const entry &e : older)
    if (e.one)
      entry_poll(e, false);
}

void watchdog_remove(watched *one) {
  watchdog &w = *current;
  entry removed; // released after the lock
  std::lock_guard<std::mutex> hold(w.lock);
  if (!is_kept(w, one))
    return;
  w.on_devices -= one->is_on_device() ? 1 : 0;
  entry &at = w.works[one->watchdog_index - 1];
  removed = std::move(at);
  if (&at != &w.works.back()) {
    at = std::move(w.works.back());
    at.one->watchdog_index = one->watchdog_index;
  }
  w.works.pop_back();
  one->watchdog_index = 0;
}

void watchdog_poll() {
  watchdog &w = *current;
  std::vector<entry> all;
  {
    std::lock_guard<std::mutex> hold(w.lock);
    all = w.works;
  }
  for (const entry &e : all)
    entry_poll(e, false);
}

} // namespace rondo_torch
