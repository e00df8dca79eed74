#include "watch.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

#include "work.hpp"

namespace rondo_torch {

namespace {

using work_ptr = c10::intrusive_ptr<work>;

struct watcher {
  std::mutex lock;
  std::condition_variable changed;
  bool is_started = false;
  std::vector<work_ptr> works; // each knows its place, from 1
  std::vector<work_ptr> seeking;
  size_t next = 0; // to be looked at
  size_t on_devices =
      0; // works for whose end no thread may ever wait: they hold memory of a device
  clock::time_point wakes = clock::time_point::max();
};

// Never destroyed: its thread may outlive static objects.
watcher *current = new watcher;

watcher &the_watcher() { return *current; }

// A child process has no such thread, and the works of its parent do not end there: it begins anew.
[[maybe_unused]] const int forks_are_watched =
    pthread_atfork(nullptr, nullptr, [] { current = new watcher; });

// The lock is held. A work that another process keeps, from which this one was forked, has a place there.
bool is_kept(const watcher &w, const work *one) {
  return one->place && one->place <= w.works.size() && w.works[one->place - 1].get() == one;
}

// Nothing is done to works with the lock held, and no last reference is dropped.

void look_at(const work_ptr &one, bool is_due) {
  if (is_due)
    one->expire();
  if (one->is_over())
    watch_remove(one.get());
}

void expire_due(watcher &w, std::unique_lock<std::mutex> &hold) {
  std::vector<work_ptr> due;
  clock::time_point now = clock::now();
  w.wakes = clock::time_point::max();
  for (const auto &one : w.works)
    if (one->deadline() <= now)
      due.push_back(one);
    else
      w.wakes = std::min(w.wakes, one->deadline());
  if (!due.empty()) // until they have ended
    w.wakes = std::min(w.wakes, now + std::chrono::seconds(1));
  hold.unlock();
  for (const auto &one : due)
    look_at(one, true);
  due.clear();
  hold.lock();
}

void look_for_senders(watcher &w, std::unique_lock<std::mutex> &hold) {
  constexpr std::chrono::microseconds PAUSE(200);
  std::vector<work_ptr> mine;
  mine.swap(w.seeking);
  hold.unlock();
  for (auto &one : mine)
    if (one->found())
      one.reset();
  mine.erase(std::remove(mine.begin(), mine.end(), nullptr), mine.end());
  hold.lock();
  w.seeking.insert(w.seeking.end(), mine.begin(), mine.end());
  mine.clear();
  if (!w.seeking.empty())
    w.changed.wait_for(hold, PAUSE);
}

// Works on devices are looked at from time to time.
void wait_a_tick(watcher &w, std::unique_lock<std::mutex> &hold) {
  constexpr std::chrono::milliseconds TICK(100);
  clock::time_point tick = clock::now() + TICK;
  if (w.changed.wait_until(hold, std::min(w.wakes, tick)) == std::cv_status::no_timeout)
    return;
  std::vector<work_ptr> mine;
  for (const auto &one : w.works)
    if (!one->device().is_cpu())
      mine.push_back(one);
  hold.unlock();
  for (const auto &one : mine)
    look_at(one, false);
  mine.clear();
  hold.lock();
}

[[noreturn]] void watch() {
  watcher &w = the_watcher();
  std::unique_lock<std::mutex> hold(w.lock);
  for (;;) {
    if (w.wakes <= clock::now())
      expire_due(w, hold);
    else if (!w.seeking.empty())
      look_for_senders(w, hold);
    else if (w.on_devices > 0)
      wait_a_tick(w, hold);
    else if (w.wakes == clock::time_point::max())
      w.changed.wait(hold);
    else
      w.changed.wait_until(hold, clock::time_point(w.wakes));
  }
}

void add(watcher &w, const work_ptr &one, bool seeks) {
  w.works.push_back(one);
  one->place = w.works.size();
  if (seeks)
    w.seeking.push_back(one);
  bool is_first = !one->device().is_cpu() && w.on_devices++ == 0;
  bool is_sooner = one->deadline() < w.wakes || is_first;
  w.wakes = std::min(w.wakes, one->deadline());
  if (!w.is_started)
    std::thread(watch).detach();
  else if (is_sooner || seeks)
    w.changed.notify_one();
  w.is_started = true;
}

} // namespace

void watch_add(const c10::intrusive_ptr<work> &one, bool seeks) {
  constexpr size_t LOOKED_AT = 2;
  watcher &w = the_watcher();
  work_ptr older[LOOKED_AT];
  {
    std::lock_guard<std::mutex> hold(w.lock);
    for (size_t i = 0; i < std::min(LOOKED_AT, w.works.size()); i++)
      older[i] = w.works[w.next++ % w.works.size()];
    add(w, one, seeks);
  }
  for (auto &other : older)
    if (other)
      look_at(other, false);
}

void watch_remove(work *one) {
  watcher &w = the_watcher();
  work_ptr gone; // released after the lock
  std::lock_guard<std::mutex> hold(w.lock);
  if (!is_kept(w, one))
    return;
  w.on_devices -= one->device().is_cpu() ? 0 : 1;
  work_ptr &at = w.works[one->place - 1];
  gone = std::move(at);
  if (&at != &w.works.back()) {
    at = std::move(w.works.back());
    at->place = one->place;
  }
  w.works.pop_back();
  one->place = 0;
}

void watch_sweep() {
  watcher &w = the_watcher();
  std::vector<work_ptr> all;
  {
    std::lock_guard<std::mutex> hold(w.lock);
    all = w.works;
  }
  for (const auto &one : all)
    look_at(one, false);
}

} // namespace rondo_torch
