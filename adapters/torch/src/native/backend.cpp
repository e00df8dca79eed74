#include "backend.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

#include "gil.hpp"
#include "status.hpp"
#include "watchdog.hpp"

namespace rondo_torch {

// How long the end of a group waits for outstanding calls before it aborts them.
static constexpr std::chrono::seconds DRAIN(10);
// The number of collectives that a communicator keeps registered.
static constexpr uint32_t CACHED_BY_GROUP = 256, CACHED_BY_NAME = 8;

static thread_local std::string operation_name;

std::string name_operations(std::string name) {
  operation_name.swap(name);
  return name;
}

// Between startCoalescing and endCoalescing of this thread: the work of all operations.
static thread_local std::map<const backend *, c10::intrusive_ptr<work>> coalesced;

// -------------------------------------------------------------------- life ---

c10::intrusive_ptr<c10d::Backend> backend::make(const c10::intrusive_ptr<c10d::Store> &store,
                                                const group_settings &s) {
  std::shared_ptr<job> owner;
  std::vector<uint32_t> members(s.members.begin(), s.members.end());
  if (!members.empty() && !s.is_separate)
    owner = job::get_default();
  if (!owner) {
    owner = job::open(store, s);
    members.resize(static_cast<size_t>(s.size));
    std::iota(members.begin(), members.end(), 0);
  }
  if (s.members.empty())
    job::set_default(owner);
  return c10::make_intrusive<backend>(owner, members, s);
}

backend::backend(std::shared_ptr<job> owner, std::vector<uint32_t> members,
                 const group_settings &settings)
    : Backend(settings.rank, settings.size), job_(std::move(owner)), members_(std::move(members)),
      settings_(settings), key_(job_->next_key(settings.name)) {
  (void)get_comm("");
}

void backend::eagerConnectSingleDevice(at::Device device) {
  if (device.is_cuda())
    (void)get_comm("", device);
}

backend::~backend() { end_group(); }

// Waits for outstanding calls, then aborts them.
static void comms_destroy(const comm_map &comms, std::shared_ptr<job> owner) {
  clock::time_point until = clock::now() + DRAIN;
  for (const auto &[name, one] : comms)
    if (one->wait(nullptr, until) == RONDO_ERR_TIMEOUT) {
      one->abort();
      (void)one->wait(nullptr, clock::now() + DRAIN);
    }
  watchdog_poll(); // works must see the end of their calls before the communicators are destroyed
  // Drain, not abort: a call that has ended here may still be in progress on a peer.
  for (const auto &[name, one] : comms)
    (void)rondo_comm_destroy(one->context, one->comm, RONDO_DESTROY_DRAIN, 0);
  owner.reset();
}

void backend::end_group() {
  std::shared_ptr<job> owner;
  comm_map comms;
  {
    std::lock_guard<std::mutex> hold(lock_);
    is_shut_down_ = true;
    owner.swap(job_);
    comms.swap(comms_);
    p2p_comms_.clear();
  }
  if (!owner || owner->is_forked()) // a child process has no threads that could end the calls
    return;
  auto released = gil_release(); // callbacks may need it
  if (is_in_callback())
    std::thread(comms_destroy, std::move(comms), std::move(owner)).detach();
  else
    comms_destroy(comms, std::move(owner));
}

void backend::shutdown() { end_group(); }

void backend::abort() {
  std::lock_guard<std::mutex> hold(lock_);
  for (const auto &[name, one] : comms_)
    one->abort();
}

void backend::setTimeout(milliseconds timeout) {
  std::lock_guard<std::mutex> hold(lock_);
  settings_.timeout = timeout;
}

c10::intrusive_ptr<c10d::Backend::Options> backend::getBackendOptions() {
  std::lock_guard<std::mutex> hold(lock_);
  return c10::make_intrusive<Options>("rondo", settings_.timeout);
}

// Makes a group of some of the ranks. All members call this, so the key needs no message.
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
  TORCH_CHECK(job_, "rondo: split of a process group that was shut down");
  if (s.rank < 0)
    return {};
  return c10::make_intrusive<backend>(job_, members, s);
}

// ------------------------------------------------------------ communicators ---

// The lock is held.
communicator_ptr backend::create_comm(const std::string &name, struct rondo_context context,
                                      std::shared_ptr<const comm_stream> stream) {
  auto made = std::make_shared<communicator>();
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  made->context = context;
  made->size = static_cast<uint32_t>(members_.size());
  check(rondo_group_create(context, members_.data(), made->size, &cfg.group), "creating a group");
  cfg.key = key_hash(name, key_, 1);
  cfg.cached_collectives = name.empty() ? CACHED_BY_GROUP : CACHED_BY_NAME;
  int status = rondo_comm_create(context, &cfg, &made->comm);
  (void)rondo_group_destroy(context, cfg.group);
  check(status, "creating a communicator");
  made->label = "process group '" + settings_.name + "', rank " + std::to_string(getRank());
  if (!name.empty())
    made->label += ", " + name;
  made->stream = std::move(stream);
  return made;
}

communicator_ptr backend::get_comm(const std::string &name, c10::Device device) {
  const std::string place = (device.is_cpu() ? "" : device.str() + " ") + name;
  std::shared_ptr<job> owner;
  std::shared_ptr<const comm_stream> stream;
  // With the lock.
  auto find = [&]() -> communicator_ptr {
    TORCH_CHECK(!is_shut_down_, "rondo: process group '", settings_.name, "' was shut down");
    auto found = comms_.find(place);
    return found == comms_.end() ? nullptr : found->second;
  };
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (auto found = find())
      return found;
    owner = job_;
  }
  // Without the lock: these may need the GIL, and a thread with the GIL may wait for the lock.
  struct rondo_context context =
      device.is_cpu() ? owner->context() : owner->device_context(device.index());
  if (!device.is_cpu())
    stream = comm_stream::acquire(device);
  std::lock_guard<std::mutex> hold(lock_);
  if (auto found = find()) // another thread may have created it
    return found;
  return comms_.emplace(place, create_comm(name, context, std::move(stream))).first->second;
}

communicator_ptr backend::current_comm(const pending_work &one) {
  return get_comm(operation_name.empty() ? "" : "name '" + operation_name + "'", one->device());
}

communicator_ptr backend::p2p_comm(const pending_work &one, int tag, const std::string &direction) {
  std::string name = operation_name.empty() ? "" : "name '" + operation_name + "'";
  if (tag != 0)
    name += (name.empty() ? "tag " : ", tag ") + std::to_string(tag);
  auto main = get_comm(name, one->device());
  if (!main->stream)
    return main;
  name += ", " + direction;
  {
    std::lock_guard<std::mutex> hold(lock_);
    auto found = p2p_comms_.find(name);
    if (found != p2p_comms_.end())
      return found->second;
  }
  auto made = std::make_shared<communicator>(*main);
  made->stream = comm_stream::acquire(one->device());
  std::lock_guard<std::mutex> hold(lock_);
  return p2p_comms_.emplace(name, std::move(made)).first->second;
}

// --------------------------------------------------------------- operations ---

uint64_t backend::getSequenceNumberForGroup() {
  std::lock_guard<std::mutex> hold(lock_);
  return sequence_;
}

// The device of all tensors; `device` if there are none.
static c10::Device device_of(const backend::tensors &inputs, const backend::tensor_lists &outputs,
                             const char *title, c10::Device device) {
  const at::Tensor *first = nullptr;
  auto check_list = [&](const backend::tensors &list) {
    for (const at::Tensor &one : list) {
      first = first ? first : &one;
      TORCH_CHECK(one.device() == first->device(), title, ": tensors on ", first->device().str(),
                  " and on ", one.device().str(), ": an operation has its tensors on one device");
    }
  };
  check_list(inputs);
  for (const auto &list : outputs)
    check_list(list);
  return first ? first->device() : device;
}

backend::pending_work backend::begin(const operation &what, const tensors &inputs,
                                     const tensor_lists &outputs) {
  auto open = coalesced.find(this);
  bool is_open = open != coalesced.end();
  c10::Device device = device_of(inputs, outputs, what.title, what.device);
  if (is_open && open->second) {
    c10::Device others = open->second->device();
    TORCH_CHECK(device == others, what.title, ": a tensor on ", device.str(),
                ", coalesced with tensors on ", others.str(), ": all must be on one device");
    open->second->add_outputs(outputs);
    return open->second;
  }
  work_plan plan = {what.type, what.title, getRank(), 0, what.timeout, inputs, outputs, device};
  {
    std::lock_guard<std::mutex> hold(lock_);
    plan.local_size = job_ ? job_->local_size() : 0;
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

backend::work_ptr backend::end(const pending_work &one) {
  if (!is_coalescing())
    one->seal();
  return one;
}

void backend::startCoalescing() {
  TORCH_CHECK(coalesced.emplace(this, nullptr).second,
              "rondo: this thread has called startCoalescing before");
}

backend::work_ptr backend::endCoalescing() {
  auto open = coalesced.find(this);
  TORCH_CHECK(open != coalesced.end(), "rondo: this thread has not called startCoalescing");
  pending_work one = open->second;
  coalesced.erase(open);
  if (!one)
    one = begin({c10d::OpType::COALESCED, "rondo:coalesced", kNoTimeout}, {}, {});
  one->seal();
  return one;
}

} // namespace rondo_torch
