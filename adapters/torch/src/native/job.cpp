#include "home.hpp"

#include <cstring>
#include <set>

#include <pthread.h>
#include <unistd.h>

#include <c10/util/Exception.h>

#include "lane.hpp"
#include "work.hpp"

namespace rondo_torch {

namespace {

struct registry {
  std::mutex lock;
  std::weak_ptr<home> of_default;
  std::set<uint64_t> contexts;
};

// Never destroyed: what is left at the end of the process may come after static objects have gone.
registry *the_registry = new registry;

registry &homes() { return *the_registry; }

// A child process, such as a worker that loads data, ends none of its parent's jobs. It begins with an empty
// registry: another thread may have held the lock of this one when it was forked.
[[maybe_unused]] const int forks_are_watched =
    pthread_atfork(nullptr, nullptr, [] { the_registry = new registry; });

} // namespace

uint64_t spread(const std::string &text, uint64_t a, uint64_t b) {
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

// ------------------------------------------------------------ the store ---

// A store may serve one job after the other, and a rank may be done with one before another rank
// has begun: so each rank counts its own jobs in the store, and the n-th of one rank is the n-th of all. A rank
// that comes to none takes its count back, and may try again.
static std::string counter_of(int rank) { return "rondo/jobs/" + std::to_string(rank); }

static std::string place_of(const std::string &generation, int backend) {
  return "rondo/id/" + generation + (backend == RONDO_BACKEND_CUDA ? "/cuda" : "/host");
}

static struct rondo_config config_of(const home_settings &s) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank = static_cast<uint32_t>(s.rank);
  cfg.rank_count = static_cast<uint32_t>(s.size);
  cfg.join_timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(s.timeout).count());
  cfg.report_on_timeout = 0; // that is said when a group gives up, see work.cpp
  return cfg;
}

static void give_id(c10d::Store &store, const std::string &place,
                    const struct rondo_unique_id &id) {
  store.set(place, std::vector<uint8_t>(id.bytes, id.bytes + sizeof id.bytes));
}

// Forgets the id when all have it. A store that cannot forget keeps it.
static void leave_id(c10d::Store &store, const std::string &place, int size) {
  try {
    if (store.add(place + "/taken", 1) < size - 1)
      return;
    (void)store.deleteKey(place);
    (void)store.deleteKey(place + "/taken");
  } catch (const std::exception &) {
    return;
  }
}

static void take_id(c10d::Store &store, const home_settings &s, const std::string &place,
                    struct rondo_unique_id *id) {
  store.wait({place}, s.timeout);
  std::vector<uint8_t> bytes = store.get(place);
  TORCH_CHECK(bytes.size() == sizeof id->bytes,
              "rondo: rank 0 has no CUDA device, and so made no job for tensors on devices");
  std::memcpy(id->bytes, bytes.data(), bytes.size());
  leave_id(store, place, s.size);
}

// ------------------------------------------------------------------ joining ---

struct rondo_context home::join(const home_settings &settings, const door &by) {
  struct rondo_config cfg = config_of(settings);
  struct rondo_context context;
  cfg.backend = by.backend;
  cfg.device = by.device;
  cfg.id = by.id;
  check(rondo_init(&context, &cfg), "joining the job");
  std::lock_guard<std::mutex> hold(homes().lock);
  homes().contexts.insert(context.handle);
  return context;
}

// Rank 0 makes both ids at once, so that who has tensors on a device later need not wait for it again.
void home::give_ids(door &by_host) {
  struct rondo_config cfg = config_of(settings_);
  check(rondo_unique_id_listen(&by_host.id, &cfg), "making the job's id");
  if (has_devices()) {
    check(rondo_unique_id_listen(&by_device_.id, &cfg), "making the id of the job on devices");
    give_id(*store_, place_of(generation_, RONDO_BACKEND_CUDA), by_device_.id);
  } else {
    store_->set(place_of(generation_, RONDO_BACKEND_CUDA), std::vector<uint8_t>{0});
  }
  give_id(*store_, place_of(generation_, RONDO_BACKEND_HOST), by_host.id);
}

void home::enter() {
  door by_host = {RONDO_BACKEND_HOST, 0, {}};
  if (settings_.size == 1) {
    context_ = join(settings_, by_host);
    return;
  }
  generation_ = std::to_string(store_->add(counter_of(settings_.rank), 1));
  try {
    if (settings_.rank == 0)
      give_ids(by_host);
    else
      take_id(*store_, settings_, place_of(generation_, RONDO_BACKEND_HOST), &by_host.id);
    context_ = join(settings_, by_host);
  } catch (...) {
    (void)store_->add(counter_of(settings_.rank), -1);
    throw;
  }
}

std::shared_ptr<home> home::open(const c10::intrusive_ptr<c10d::Store> &store,
                                 const home_settings &settings) {
  std::shared_ptr<home> one(new home(store, settings));
  one->enter();
  return one;
}

struct rondo_context home::on_device(int device) {
  std::lock_guard<std::mutex> hold(device_lock_);
  if (device_context_.handle) {
    TORCH_CHECK(device == by_device_.device, "rondo: a tensor is on cuda:", device,
                ", and this rank uses cuda:", by_device_.device, ": a rank has one device");
    return device_context_;
  }
  if (settings_.size > 1 && settings_.rank > 0 && !has_device_id_)
    take_id(*store_, settings_, place_of(generation_, RONDO_BACKEND_CUDA), &by_device_.id);
  has_device_id_ = true;
  by_device_.device = device;
  device_context_ = join(settings_, by_device_);
  return device_context_;
}

int home::ranks_here() {
  for (int rank = 0; ranks_here_ < 0; rank++) {
    int transport = RONDO_TRANSPORT_NONE;
    char why[RONDO_REASON_BYTES];
    if (rank == settings_.size)
      ranks_here_ = settings_.size;
    else if (rondo_transport(context_, static_cast<uint32_t>(rank), &transport, why, sizeof why) !=
             RONDO_SUCCESS)
      return 0;
    else if (transport != RONDO_TRANSPORT_LOCAL && transport != RONDO_TRANSPORT_SHARED_MEMORY)
      ranks_here_ = 0;
  }
  return ranks_here_;
}

static void end_job(struct rondo_context context) {
  bool is_there;
  {
    std::lock_guard<std::mutex> hold(homes().lock);
    is_there = homes().contexts.erase(context.handle) > 0;
  }
  if (is_there)
    (void)rondo_destroy(context, RONDO_DESTROY_ABORT, 0); // groups have drained their own
}

bool home::is_inherited() const { return process_ != getpid(); }

home::~home() {
  end_job(device_context_);
  end_job(context_);
}

std::shared_ptr<home> home::of_default() {
  std::lock_guard<std::mutex> hold(homes().lock);
  return homes().of_default.lock();
}

void home::set_default(const std::shared_ptr<home> &one) {
  std::lock_guard<std::mutex> hold(homes().lock);
  homes().of_default = one;
}

void home::abort_all() {
  std::set<uint64_t> contexts;
  {
    std::lock_guard<std::mutex> hold(homes().lock);
    contexts.swap(homes().contexts);
  }
  for (uint64_t handle : contexts)
    (void)rondo_destroy({handle}, RONDO_DESTROY_ABORT, 0);
}

uint64_t home::key_of(const std::string &name) {
  std::lock_guard<std::mutex> hold(lock_);
  return spread(name, made_[name]++, 0);
}

} // namespace rondo_torch
