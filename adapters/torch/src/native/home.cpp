#include "home.hpp"

#include <cstring>
#include <set>

#include <c10/util/Exception.h>

#include "work.hpp"

namespace rondo_torch {

namespace {

// Never destroyed: what is left at the end of the process may come after static objects have gone.
struct registry {
  std::mutex lock;
  std::map<int, std::weak_ptr<home>> defaults; // by backend
  std::set<uint64_t> contexts;
};

registry &homes() {
  static auto *one = new registry;
  return *one;
}

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

// Each rank takes the id from a place of its own and clears it, so that a job that is made again with
// the same store does not find the old one.
static std::string place_of(const home_settings &s, int rank) {
  return "rondo/id/" + std::to_string(s.backend) + "/" + std::to_string(rank);
}

static void give_id(c10d::Store &store, const home_settings &s, const struct rondo_unique_id &id) {
  std::vector<uint8_t> bytes(id.bytes, id.bytes + sizeof id.bytes);
  for (int rank = 1; rank < s.size; rank++)
    store.set(place_of(s, rank), bytes);
}

static void take_id(c10d::Store &store, const home_settings &s, struct rondo_unique_id *id) {
  std::string place = place_of(s, s.rank);
  store.wait({place}, s.timeout);
  std::vector<uint8_t> bytes = store.get(place);
  TORCH_CHECK(bytes.size() == sizeof id->bytes, "rondo: rank 0 left no id in the store");
  std::memcpy(id->bytes, bytes.data(), bytes.size());
  try {
    store.deleteKey(place);
  } catch (const std::exception &) {
    // A store that cannot forget serves one job.
  }
}

std::shared_ptr<home> home::open(c10d::Store &store, const home_settings &s) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.backend = s.backend;
  cfg.device = s.device;
  cfg.rank = static_cast<uint32_t>(s.rank);
  cfg.rank_count = static_cast<uint32_t>(s.size);
  cfg.join_timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(s.timeout).count());
  cfg.report_on_timeout = 0; // that is said when a group gives up, see work.cpp
  if (s.size > 1 && s.rank == 0) {
    check(rondo_unique_id_listen(&cfg.id, &cfg), "making the job's id");
    give_id(store, s, cfg.id);
  } else if (s.size > 1) {
    take_id(store, s, &cfg.id);
  }
  struct rondo_context context;
  check(rondo_init(&context, &cfg), "joining the job");
  return std::shared_ptr<home>(new home(context, s));
}

home::home(struct rondo_context context, const home_settings &settings)
    : context_(context), settings_(settings) {
  std::lock_guard<std::mutex> hold(homes().lock);
  homes().contexts.insert(context.handle);
}

home::~home() {
  bool is_there;
  {
    std::lock_guard<std::mutex> hold(homes().lock);
    is_there = homes().contexts.erase(context_.handle) > 0;
  }
  if (is_there)
    (void)rondo_destroy(context_, RONDO_DESTROY_ABORT, 0); // groups have drained their own
}

std::shared_ptr<home> home::of_default(int backend) {
  std::lock_guard<std::mutex> hold(homes().lock);
  auto found = homes().defaults.find(backend);
  return found == homes().defaults.end() ? nullptr : found->second.lock();
}

void home::set_default(const std::shared_ptr<home> &one) {
  std::lock_guard<std::mutex> hold(homes().lock);
  homes().defaults[one->settings_.backend] = one;
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
