// Sends, receives, and the monitored barrier, which names missing ranks.
#include "backend.hpp"
#include "tensors.hpp"

namespace rondo_torch {

static void check_peer(int peer, int rank, int size, const char *title) {
  TORCH_CHECK(peer >= 0 && peer < size && peer != rank, title, ": invalid rank ", peer,
              ": this is rank ", rank, " of ", size);
}

backend::work_ptr backend::send(tensors &data, int to, int tag) {
  const char *title = "rondo:send";
  at::Tensor &tensor = single_tensor(data, title);
  check_peer(to, getRank(), getSize(), title);
  auto one = begin({c10d::OpType::SEND, title, kNoTimeout}, data, {});
  element e = element_to_move(tensor.scalar_type());
  at::Tensor dense = dense_input(*one, tensor);
  one->call(p2p_comm(one, tag, "to " + std::to_string(to)),
            rondo_send_recv(0, e.count_in(tensor), e.dtype, static_cast<uint32_t>(getRank()),
                            static_cast<uint32_t>(to)),
            dense.const_data_ptr(), nullptr);
  return end(one);
}

backend::work_ptr backend::recv(tensors &data, int from, int tag) {
  const char *title = "rondo:recv";
  at::Tensor &tensor = single_tensor(data, title);
  check_peer(from, getRank(), getSize(), title);
  auto one = begin({c10d::OpType::RECV, title, kNoTimeout}, data, {data});
  element e = element_to_move(tensor.scalar_type());
  at::Tensor dense = dense_output(*one, tensor, false);
  one->call(p2p_comm(one, tag, "from " + std::to_string(from)),
            rondo_send_recv(0, e.count_in(tensor), e.dtype, static_cast<uint32_t>(from),
                            static_cast<uint32_t>(getRank())),
            nullptr, dense.mutable_data_ptr());
  return end(one);
}

backend::work_ptr backend::recvAnysource(tensors &data, int tag) {
  const char *title = "rondo:recvAnySource";
  at::Tensor &tensor = single_tensor(data, title);
  TORCH_CHECK(!is_coalescing(), title, ": not while coalescing");
  auto one = begin({c10d::OpType::RECVANYSOURCE, title, kNoTimeout}, data, {data});
  element e = element_to_move(tensor.scalar_type());
  at::Tensor dense = dense_output(*one, tensor, false);
  one->recv_any(
      p2p_comm(one, tag, "from any"),
      rondo_send_recv(0, e.count_in(tensor), e.dtype, 0, static_cast<uint32_t>(getRank())),
      dense.mutable_data_ptr(), getSize());
  return one;
}

// ------------------------------------------------------- monitored barrier ---

// Each rank sends a token to rank 0 and waits for one from rank 0. A rank whose timeout expires
// aborts the communicator, so that the other ranks do not wait for their own timeouts.

backend::pending_work backend::send_token(const communicator_ptr &via, int from, int to) {
  constexpr milliseconds SPARE(60000); // the caller has the shorter timeout
  bool sends = from == getRank();
  at::Tensor byte = at::zeros({1}, at::kByte);
  work_plan plan = {sends ? c10d::OpType::SEND : c10d::OpType::RECV,
                    "rondo:monitored_barrier",
                    getRank(),
                    0,
                    SPARE + settings_.timeout,
                    {},
                    {},
                    c10::kCPU};
  auto one = c10::make_intrusive<work>(std::move(plan));
  one->keep(byte);
  one->call(
      via,
      rondo_send_recv(0, 1, RONDO_UINT8, static_cast<uint32_t>(from), static_cast<uint32_t>(to)),
      sends ? byte.const_data_ptr() : nullptr, sends ? nullptr : byte.mutable_data_ptr());
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
  bool is_first = true;
  for (int rank = 1; rank < getSize(); rank++) {
    // Rank 0 itself came too late to name a missing rank.
    TORCH_CHECK(names_all || clock::now() < until,
                "[Rank 0]: Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms");
    if (work_wait(*arrivals[static_cast<size_t>(rank) - 1], until))
      continue;
    TORCH_CHECK(names_all, "[Rank 0]: Rank ", rank, " failed to pass monitoredBarrier in ",
                timeout.count(), " ms");
    missing += (is_first ? "" : ", ") + std::to_string(rank);
    is_first = false;
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
    (void)rondo_comm_abort(via->context, via->comm);
    std::lock_guard<std::mutex> hold(lock_);
    failed_barriers_ = failed + 1;
    throw;
  }
}

} // namespace rondo_torch
