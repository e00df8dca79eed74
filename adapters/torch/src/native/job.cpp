#include "job.hpp"

#include <cstring>
#include <exception>
#include <set>

#include <pthread.h>

#include <c10/util/Exception.h>

#include "status.hpp"
#include "stream.hpp"

namespace rondo_torch {

namespace {

struct registry {
  std::mutex lock;
  std::weak_ptr<job> default_job;
  std::set<uint64_t> contexts;
};

// Never destroyed: jobs may end after static objects are gone.
registry *jobs = new registry;

// A child process, such as a data loader's worker, ends none of its parent's jobs. Its registry is
// new: a thread that it does not have may hold the old lock.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { jobs = new registry; });

} // namespace

uint64_t key_hash(const std::string &text, uint64_t a, uint64_t b) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (unsigned char c : text)
    h = (h ^ c) * UINT64_C(0x100000001b3);
  for (uint64_t word : {static_cast<uint64_t>(text.size()), a, b}) {
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 29;
  }
  h *= UINT64_C(0xbf58476d1ce4e5b9);
  return h ^ (h >> 32);
}

// --------------------------------------------------------------- the store ---

// A store may serve several jobs one after the other, and a rank may end one before another rank
// has joined it. So each rank counts its jobs in the store, and the n-th jobs of all ranks are one.
// A rank that fails to join takes its count back, and may try again.
static std::string counter_key(int rank) { return "rondo/jobs/" + std::to_string(rank); }

static std::string id_key(const std::string &generation, int backend) {
  return "rondo/id/" + generation + (backend == RONDO_BACKEND_CUDA ? "/cuda" : "/host");
}

struct rondo_config job::config_make(const group_settings &s, int backend) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.backend = backend;
  cfg.rank = static_cast<uint32_t>(s.rank);
  cfg.rank_count = static_cast<uint32_t>(s.size);
  cfg.join_timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(s.timeout).count());
  cfg.report_on_timeout = 0; // work.cpp reports when an operation times out
  return cfg;
}

static void id_put(c10d::Store &store, const std::string &key, const struct rondo_unique_id &id) {
  store.set(key, std::vector<uint8_t>(id.bytes, id.bytes + sizeof id.bytes));
}

// Deletes the id after all ranks have read it. A store that cannot delete keeps it.
static void id_release(c10d::Store &store, const std::string &key, int size) {
  try {
    if (store.add(key + "/taken", 1) < size - 1)
      return;
    (void)store.deleteKey(key);
    (void)store.deleteKey(key + "/taken");
  } catch (const std::exception &) {
    return;
  }
}

static void id_get(c10d::Store &store, const group_settings &s, const std::string &key,
                   struct rondo_unique_id *id) {
  store.wait({key}, s.timeout);
  std::vector<uint8_t> bytes = store.get(key);
  TORCH_CHECK(bytes.size() == sizeof id->bytes,
              "rondo: rank 0 has no CUDA device, so there is no job for tensors on devices");
  std::memcpy(id->bytes, bytes.data(), bytes.size());
  id_release(store, key, s.size);
}

// ----------------------------------------------------------------- joining ---

static struct rondo_context context_create(const struct rondo_config &cfg) {
  struct rondo_context context;
  check(rondo_init(&context, &cfg), "joining the job");
  std::lock_guard<std::mutex> hold(jobs->lock);
  jobs->contexts.insert(context.handle);
  return context;
}

// Rank 0 publishes both ids at once, so that no rank waits for it again at its first tensor on a
// device.
void job::publish_ids(struct rondo_config &host) {
  const struct rondo_config cfg = host;
  check(rondo_unique_id_listen(&host.id, &cfg), "creating the id of the job");
  if (has_cuda_devices()) {
    check(rondo_unique_id_listen(&device_.id, &cfg), "creating the id of the job on devices");
    id_put(*store_, id_key(generation_, RONDO_BACKEND_CUDA), device_.id);
  } else {
    store_->set(id_key(generation_, RONDO_BACKEND_CUDA), std::vector<uint8_t>{0});
  }
  id_put(*store_, id_key(generation_, RONDO_BACKEND_HOST), host.id);
}

void job::join() {
  struct rondo_config host = config_make(settings_, RONDO_BACKEND_HOST);
  if (settings_.size == 1) {
    context_ = context_create(host);
    return;
  }
  generation_ = std::to_string(store_->add(counter_key(settings_.rank), 1));
  try {
    if (settings_.rank == 0)
      publish_ids(host);
    else
      id_get(*store_, settings_, id_key(generation_, RONDO_BACKEND_HOST), &host.id);
    context_ = context_create(host);
  } catch (...) {
    (void)store_->add(counter_key(settings_.rank), -1);
    throw;
  }
}

std::shared_ptr<job> job::open(const c10::intrusive_ptr<c10d::Store> &store,
                               const group_settings &settings) {
  std::shared_ptr<job> one(new job(store, settings));
  one->join();
  return one;
}

struct rondo_context job::device_join(int device) {
  if (settings_.size > 1 && settings_.rank > 0 && !has_device_id_)
    id_get(*store_, settings_, id_key(generation_, RONDO_BACKEND_CUDA), &device_.id);
  has_device_id_ = true;
  device_.device = device;
  return context_create(device_);
}

// Joining waits for the store and for the device, which may wait for a stream of a thread that
// needs the lock. So the thread that joins does not hold it; the others wait for that thread.
struct rondo_context job::device_context(int device) {
  std::unique_lock<std::mutex> hold(device_lock_);
  device_joined_.wait(hold, [this] { return !is_joining_device_; });
  if (device_context_.handle) {
    TORCH_CHECK(device == device_.device, "rondo: a tensor is on cuda:", device,
                ", but this rank uses cuda:", device_.device, ": a rank has one device");
    return device_context_;
  }
  struct rondo_context context = {0};
  std::exception_ptr failure;
  is_joining_device_ = true;
  hold.unlock();
  try {
    context = device_join(device);
  } catch (...) {
    failure = std::current_exception();
  }
  hold.lock();
  is_joining_device_ = false;
  device_context_ = context;
  device_joined_.notify_all();
  if (failure)
    std::rethrow_exception(failure);
  return context;
}

int job::local_size() {
  for (int rank = 0; local_size_ < 0; rank++) {
    int transport = RONDO_TRANSPORT_NONE;
    char why[RONDO_REASON_BYTES];
    if (rank == settings_.size)
      local_size_ = settings_.size;
    else if (rondo_transport(context_, static_cast<uint32_t>(rank), &transport, why, sizeof why) !=
             RONDO_SUCCESS)
      return 0;
    else if (transport != RONDO_TRANSPORT_LOCAL && transport != RONDO_TRANSPORT_SHARED_MEMORY)
      local_size_ = 0;
  }
  return local_size_;
}

static void context_destroy(struct rondo_context context) {
  bool is_open;
  {
    std::lock_guard<std::mutex> hold(jobs->lock);
    is_open = jobs->contexts.erase(context.handle) > 0;
  }
  if (is_open)
    (void)rondo_destroy(context, RONDO_DESTROY_ABORT, 0); // process groups have drained theirs
}

bool job::is_forked() const { return process_ != getpid(); }

job::~job() {
  context_destroy(device_context_);
  context_destroy(context_);
}

std::shared_ptr<job> job::get_default() {
  std::lock_guard<std::mutex> hold(jobs->lock);
  return jobs->default_job.lock();
}

void job::set_default(const std::shared_ptr<job> &one) {
  std::lock_guard<std::mutex> hold(jobs->lock);
  jobs->default_job = one;
}

void job::abort_all() {
  std::set<uint64_t> contexts;
  {
    std::lock_guard<std::mutex> hold(jobs->lock);
    contexts.swap(jobs->contexts);
  }
  for (uint64_t handle : contexts)
    (void)rondo_destroy({handle}, RONDO_DESTROY_ABORT, 0);
}

uint64_t job::next_key(const std::string &name) {
  std::lock_guard<std::mutex> hold(lock_);
  return key_hash(name, key_counts_[name]++, 0);
}

} // namespace rondo_torch
