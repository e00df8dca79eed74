// Sends, receives, and the monitored barrier, which names missing ranks.
#include "backend.hpp"
#include "tensors.hpp"

namespace rondo_torch {

// A send or receive of a tensor.
static struct rondo_collective_desc describe_p2p(const at::Tensor &tensor, int from, int to) {
  element e = element_to_move(tensor.scalar_type());
  return rondo_send_recv(0, e.count_in(tensor), e.dtype, static_cast<uint32_t>(from),
                         static_cast<uint32_t>(to));
}

backend::work_ptr backend::send_or_recv(const operation &what, tensors &data, int peer, int tag) {
  at::Tensor &tensor = single_tensor(data, what.title);
  TORCH_CHECK(peer >= 0 && peer < getSize() && peer != getRank(), what.title, ": invalid rank ",
              peer, ": this is rank ", getRank(), " of ", getSize());
  if (what.type == c10d::OpType::SEND) {
    auto one = begin(what, data, {});
    one->call(p2p_comm(one, tag, "to " + std::to_string(peer)),
              describe_p2p(tensor, getRank(), peer), dense_input(tensor), {});
    return end(one);
  }
  auto one = begin(what, data, {data});
  one->call(p2p_comm(one, tag, "from " + std::to_string(peer)),
            describe_p2p(tensor, peer, getRank()), {}, dense_output(*one, tensor, false));
  return end(one);
}

backend::work_ptr backend::send(tensors &data, int to, int tag) {
  return send_or_recv({c10d::OpType::SEND, "rondo:send", kNoTimeout}, data, to, tag);
}

backend::work_ptr backend::recv(tensors &data, int from, int tag) {
  return send_or_recv({c10d::OpType::RECV, "rondo:recv", kNoTimeout}, data, from, tag);
}

backend::work_ptr backend::recvAnysource(tensors &data, int tag) {
  const char *title = "rondo:recvAnySource";
  at::Tensor &tensor = single_tensor(data, title);
  TORCH_CHECK(!is_coalescing(), title, ": not while coalescing");
  auto one = begin({c10d::OpType::RECVANYSOURCE, title, kNoTimeout}, data, {data});
  one->recv_any(p2p_comm(one, tag, "from any"), describe_p2p(tensor, 0, getRank()),
                dense_output(*one, tensor, false));
  return one;
}

// ------------------------------------------------------- monitored barrier ---

// Each rank sends a token to rank 0 and waits for one from rank 0. A rank whose timeout expires
// aborts the communicator, so that the other ranks do not wait for their own timeouts.

backend::pending_work backend::send_token(const communicator_ptr &via, int from, int to) {
  constexpr milliseconds SPARE(60000); // the caller has the shorter timeout
  bool sends = from == getRank();
  at::Tensor byte = at::zeros({1}, at::kByte), none;
  work_plan plan = {sends ? c10d::OpType::SEND : c10d::OpType::RECV, "rondo:monitored_barrier",
                    getRank(), 0, SPARE + settings_.timeout};
  auto one = c10::make_intrusive<work>(std::move(plan));
  one->call(via, describe_p2p(byte, from, to), sends ? byte : none, sends ? none : byte);
  one->seal();
  return one;
}

static milliseconds left_until(clock::time_point until) {
  auto left = std::chrono::duration_cast<milliseconds>(until - clock::now());
  return std::max(left, milliseconds(1));
}

static bool work_wait(work &one, clock::time_point until) {
  try {
    return one.wait(left_until(until));
  } catch (const std::exception &) {
    return false;
  }
}

void backend::monitor_ranks(const communicator_ptr &via, milliseconds timeout, bool names_all) {
  clock::time_point until = clock::now() + timeout;
  std::vector<pending_work> arrivals;
  std::string missing;
  for (int rank = 1; rank < getSize(); rank++)
    arrivals.push_back(send_token(via, rank, 0));
  for (int rank = 1; rank < getSize(); rank++) {
    // Rank 0 itself came too late to name a missing rank.
    TORCH_CHECK(names_all || clock::now() < until,
                "[Rank 0]: Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms");
    if (work_wait(*arrivals[static_cast<size_t>(rank) - 1], until))
      continue;
    TORCH_CHECK(names_all, "[Rank 0]: Rank ", rank, " failed to pass monitoredBarrier in ",
                timeout.count(), " ms");
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  TORCH_CHECK(missing.empty(), "[Rank 0]: Ranks ", missing, " failed to pass monitoredBarrier in ",
              timeout.count(), " ms");
  std::vector<pending_work> answers;
  for (int rank = 1; rank < getSize(); rank++)
    answers.push_back(send_token(via, 0, rank));
  for (const auto &answer : answers)
    answer->wait(left_until(until));
}

void backend::report_to_monitor(const communicator_ptr &via, milliseconds timeout) {
  clock::time_point until = clock::now() + timeout;
  auto arrival = send_token(via, getRank(), 0);
  auto answer = send_token(via, 0, getRank());
  TORCH_CHECK(work_wait(*arrival, until) && work_wait(*answer, until), "Rank ", getRank(),
              " successfully reached monitoredBarrier, but received errors while waiting for "
              "send/recv from rank 0. Please check rank 0 logs for faulty rank.");
}

void backend::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) {
  uint64_t failed;
  milliseconds timeout = opts.timeout;
  {
    std::lock_guard<std::mutex> hold(lock_);
    failed = failed_barriers_;
    if (timeout == c10d::kUnsetTimeout)
      timeout = settings_.timeout;
  }
  auto via = get_comm("monitored barrier " + std::to_string(failed));
  try {
    if (getRank() == 0)
      monitor_ranks(via, timeout, wait_all_ranks);
    else
      report_to_monitor(via, timeout);
  } catch (...) {
    via->abort();
    std::lock_guard<std::mutex> hold(lock_);
    failed_barriers_ = failed + 1;
    throw;
  }
}

} // namespace rondo_torch
