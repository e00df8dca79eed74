#include "watch.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "work.hpp"

namespace rondo_torch {

namespace {

struct watcher {
  std::mutex lock;
  std::condition_variable changed;
  bool is_started = false;
  std::multimap<clock::time_point, c10::intrusive_ptr<work>> works;
};

// Never destroyed: its thread may outlive static objects.
watcher &the_watcher() {
  static auto *one = new watcher;
  return *one;
}

void expire_due(watcher &w, std::unique_lock<std::mutex> &hold) {
  std::vector<c10::intrusive_ptr<work>> due;
  auto end = w.works.upper_bound(clock::now());
  for (auto at = w.works.begin(); at != end; ++at)
    due.push_back(at->second);
  w.works.erase(w.works.begin(), end);
  hold.unlock();
  for (const auto &one : due)
    one->expire();
  due.clear(); // without the lock: the last user of a work may be here
  hold.lock();
}

[[noreturn]] void watch() {
  watcher &w = the_watcher();
  std::unique_lock<std::mutex> hold(w.lock);
  for (;;) {
    if (w.works.empty())
      w.changed.wait(hold);
    else if (w.works.begin()->first > clock::now())
      w.changed.wait_until(hold, clock::time_point(w.works.begin()->first));
    else
      expire_due(w, hold);
  }
}

} // namespace

void watch_add(const c10::intrusive_ptr<work> &one) {
  watcher &w = the_watcher();
  std::lock_guard<std::mutex> hold(w.lock);
  auto at = w.works.emplace(one->deadline(), one);
  if (!w.is_started) {
    std::thread(watch).detach();
    w.is_started = true;
  } else if (at == w.works.begin()) {
    w.changed.notify_one();
  }
}

void watch_remove(work *one) {
  watcher &w = the_watcher();
  c10::intrusive_ptr<work> gone; // released after the lock
  std::lock_guard<std::mutex> hold(w.lock);
  auto range = w.works.equal_range(one->deadline());
  for (auto at = range.first; at != range.second; ++at)
    if (at->second.get() == one) {
      gone = std::move(at->second);
      w.works.erase(at);
      return;
    }
}

} // namespace rondo_torch
