#include "backend.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

#include "python_lock.hpp"
#include "watch.hpp"

namespace rondo_torch {

// How long the end of a group lets calls go on that nobody waits for any more.
static constexpr int64_t DRAIN_NS = INT64_C(10000000000);
// Kinds of call that stay registered: of a whole group, and of a name or tag in it.
static constexpr uint32_t CACHED_OF_GROUP = 256, CACHED_OF_NAME = 8;

static thread_local std::string operation_name;

std::string name_operations(std::string name) {
  operation_name.swap(name);
  return name;
}

// Between startCoalescing and endCoalescing of this thread: the work that all operations go to.
static thread_local std::map<const backend *, c10::intrusive_ptr<work>> coalesced;

// -------------------------------------------------------------------- life ---

c10::intrusive_ptr<c10d::Backend> backend::make(const c10::intrusive_ptr<c10d::Store> &store,
                                                const group_settings &s) {
  std::shared_ptr<home> where;
  std::vector<uint32_t> members(s.members.begin(), s.members.end());
  if (!members.empty())
    where = home::of_default();
  if (!where) {
    where = home::open(store, {s.rank, s.size, s.timeout});
    members.resize(static_cast<size_t>(s.size));
    std::iota(members.begin(), members.end(), 0);
  }
  if (s.members.empty())
    home::set_default(where);
  return c10::make_intrusive<backend>(where, members, s);
}

backend::backend(std::shared_ptr<home> home, std::vector<uint32_t> members,
                 const group_settings &settings)
    : Backend(settings.rank, settings.size), home_(std::move(home)), members_(std::move(members)),
      settings_(settings), key_(home_->key_of(settings.name)) {
  (void)channel_named("");
}

void backend::eagerConnectSingleDevice(at::Device device) {
  if (device.is_cuda())
    (void)channel_named("", device);
}

backend::~backend() { leave(); }

// Lets calls that nobody waits for any more go on for a while, then ends them.
static void drain(const channel &one, clock::time_point until) {
  auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - clock::now());
  int64_t left_ns = std::max<int64_t>(left.count(), 0);
  if (rondo_comm_wait(one.context, one.comm, nullptr, left_ns) != RONDO_ERR_TIMEOUT)
    return;
  (void)rondo_comm_abort(one.context, one.comm);
  (void)rondo_comm_wait(one.context, one.comm, nullptr, DRAIN_NS);
}

using channel_map = std::map<std::string, std::shared_ptr<const channel>>;

static void end_all(const channel_map &channels, std::shared_ptr<home> where) {
  clock::time_point until = clock::now() + std::chrono::nanoseconds(DRAIN_NS);
  for (const auto &[name, one] : channels)
    drain(*one, until);
  watch_sweep(); // works whose calls have ended conclude while the communicators are there yet
  // Not to abort, which would cut what peers have yet of calls that have ended here.
  for (const auto &[name, one] : channels)
    (void)rondo_comm_destroy(one->context, one->comm, RONDO_DESTROY_DRAIN, 0);
  where.reset();
}

void backend::leave() {
  std::shared_ptr<home> where;
  channel_map channels;
  {
    std::lock_guard<std::mutex> hold(lock_);
    is_gone_ = true;
    where.swap(home_);
    channels.swap(channels_);
    beside_.clear();
  }
  if (!where || where->is_inherited()) // nothing runs there that could be waited for
    return;
  without_python_lock unlocked; // callbacks may want it before they end
  if (is_in_callback())
    std::thread(end_all, std::move(channels), std::move(where)).detach();
  else
    end_all(channels, std::move(where));
}

void backend::shutdown() { leave(); }

void backend::abort() {
  std::lock_guard<std::mutex> hold(lock_);
  for (const auto &[name, one] : channels_)
    (void)rondo_comm_abort(one->context, one->comm);
}

void backend::setTimeout(milliseconds timeout) {
  std::lock_guard<std::mutex> hold(lock_);
  settings_.timeout = timeout;
}

c10::intrusive_ptr<c10d::Backend::Options> backend::getBackendOptions() {
  std::lock_guard<std::mutex> hold(lock_);
  return c10::make_intrusive<Options>("rondo", settings_.timeout);
}

// The group of some of this one's ranks. All members of this one call it, and the key follows from that alone.
c10::intrusive_ptr<c10d::Backend> backend::split(const c10::intrusive_ptr<c10d::Store> & /*store*/,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<Options> &opts) {
  group_settings s = settings_;
  std::vector<uint32_t> members;
  s.rank = -1;
  s.size = static_cast<int>(ranks.size());
  s.name = settings_.name + ":split:" + std::to_string(key_);
  s.members.clear();
  if (opts)
    s.timeout = opts->timeout;
  for (size_t i = 0; i < ranks.size(); i++) {
    TORCH_CHECK(ranks[i] >= 0 && ranks[i] < getSize(), "rondo: split: rank ", ranks[i], " of ",
                getSize());
    members.push_back(members_[static_cast<size_t>(ranks[i])]);
    s.name += "," + std::to_string(ranks[i]);
    if (ranks[i] == getRank())
      s.rank = static_cast<int>(i);
  }
  std::lock_guard<std::mutex> hold(lock_);
  TORCH_CHECK(home_, "rondo: split of a process group that has been shut down");
  if (s.rank < 0)
    return {};
  return c10::make_intrusive<backend>(home_, members, s);
}

// ----------------------------------------------------------------- channels ---

static struct rondo_comm make_comm(struct rondo_context where, uint64_t key,
                                   const std::vector<uint32_t> &members, uint32_t cached) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm;
  check(
      rondo_group_create(where, members.data(), static_cast<uint32_t>(members.size()), &cfg.group),
      "making a group");
  cfg.key = key;
  cfg.cached_collectives = cached;
  int status = rondo_comm_create(where, &cfg, &comm);
  (void)rondo_group_destroy(where, cfg.group);
  check(status, "making a communicator");
  return comm;
}

// With the lock held.
std::shared_ptr<const channel> backend::make_channel(const std::string &name,
                                                     struct rondo_context context,
                                                     std::shared_ptr<const lane> on) {
  auto made = std::make_shared<channel>();
  made->context = context;
  made->comm = make_comm(made->context, spread(name, key_, 1), members_,
                         name.empty() ? CACHED_OF_GROUP : CACHED_OF_NAME);
  made->size = static_cast<uint32_t>(members_.size());
  made->label = "process group '" + settings_.name + "', rank " + std::to_string(getRank());
  if (!name.empty())
    made->label += ", " + name;
  made->on = std::move(on);
  return made;
}

std::shared_ptr<const channel> backend::channel_named(const std::string &name, c10::Device device) {
  const std::string place = (device.is_cpu() ? "" : device.str() + " ") + name;
  std::shared_ptr<home> where;
  std::shared_ptr<const lane> on;
  {
    std::lock_guard<std::mutex> hold(lock_);
    TORCH_CHECK(!is_gone_, "rondo: process group '", settings_.name, "' has been shut down");
    auto found = channels_.find(place);
    if (found != channels_.end())
      return found->second;
    where = home_;
  }
  // Not with the lock held, which a thread with Python's may want: these may have to ask Python.
  struct rondo_context context =
      device.is_cpu() ? where->context() : where->on_device(device.index());
  if (!device.is_cpu())
    on = lane::on(device);
  std::lock_guard<std::mutex> hold(lock_);
  TORCH_CHECK(!is_gone_, "rondo: process group '", settings_.name, "' has been shut down");
  auto found = channels_.find(place); // another thread may have been here
  if (found != channels_.end())
    return found->second;
  return channels_.emplace(place, make_channel(name, context, std::move(on))).first->second;
}

std::shared_ptr<const channel> backend::channel_here(const work_to_make &one) {
  return channel_named(operation_name.empty() ? "" : "name '" + operation_name + "'",
                       one->device());
}

std::shared_ptr<const channel> backend::channel_of_tag(const work_to_make &one, int tag,
                                                       const std::string &which) {
  std::string name = operation_name.empty() ? "" : "name '" + operation_name + "'";
  if (tag != 0)
    name += (name.empty() ? "tag " : ", tag ") + std::to_string(tag);
  auto main = channel_named(name, one->device());
  if (!main->on)
    return main;
  name += ", " + which;
  {
    std::lock_guard<std::mutex> hold(lock_);
    auto found = beside_.find(name);
    if (found != beside_.end())
      return found->second;
  }
  auto made = std::make_shared<channel>(*main);
  made->on = lane::on(one->device());
  std::lock_guard<std::mutex> hold(lock_);
  return beside_.emplace(name, std::move(made)).first->second;
}

// --------------------------------------------------------------- operations ---

uint64_t backend::getSequenceNumberForGroup() {
  std::lock_guard<std::mutex> hold(lock_);
  return sequence_;
}

// Where all the tensors are: `device` if there are none.
static c10::Device device_of(const backend::tensors &inputs, const backend::tensor_lists &outputs,
                             const char *title, c10::Device device) {
  const at::Tensor *first = nullptr;
  auto look = [&](const backend::tensors &list) {
    for (const at::Tensor &one : list) {
      first = first ? first : &one;
      TORCH_CHECK(one.device() == first->device(), title, ": tensors on ", first->device().str(),
                  " and on ", one.device().str(), ": those of one operation are on one device");
    }
  };
  look(inputs);
  for (const auto &list : outputs)
    look(list);
  return first ? first->device() : device;
}

backend::work_to_make backend::begin(const operation &what, const tensors &inputs,
                                     const tensor_lists &outputs) {
  auto open = coalesced.find(this);
  bool is_open = open != coalesced.end();
  c10::Device device = device_of(inputs, outputs, what.title, what.device);
  if (is_open && open->second) {
    c10::Device others = open->second->device();
    TORCH_CHECK(device == others, what.title, ": a tensor on ", device.str(),
                ", coalesced with tensors on ", others.str(), ": they must be on one device");
    open->second->add_outputs(outputs);
    return open->second;
  }
  work_plan plan = {what.type, what.title, getRank(), 0, what.timeout, inputs, outputs, device};
  {
    std::lock_guard<std::mutex> hold(lock_);
    plan.ranks_here = home_ ? home_->ranks_here() : 0;
    plan.sequence = c10d::isP2POp(what.type) ? sequence_ : ++sequence_;
    if (plan.timeout == c10d::kUnsetTimeout || plan.timeout == kNoTimeout)
      plan.timeout = settings_.timeout;
  }
  auto one = c10::make_intrusive<work>(std::move(plan));
  if (is_open)
    open->second = one;
  return one;
}

bool backend::is_coalescing() const { return coalesced.find(this) != coalesced.end(); }

backend::work_ptr backend::end(const work_to_make &one) {
  if (!is_coalescing())
    one->seal();
  return one;
}

void backend::startCoalescing() {
  TORCH_CHECK(coalesced.emplace(this, nullptr).second,
              "rondo: coalescing has begun already in this thread");
}

backend::work_ptr backend::endCoalescing() {
  auto open = coalesced.find(this);
  TORCH_CHECK(open != coalesced.end(), "rondo: no coalescing has begun in this thread");
  work_to_make one = open->second;
  coalesced.erase(open);
  if (!one)
    one = begin({c10d::OpType::COALESCED, "rondo:coalesced", kNoTimeout}, {}, {});
  one->seal();
  return one;
}

} // namespace rondo_torch
