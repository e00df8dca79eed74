// The collectives of the backend.
#include "backend.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "tensors.hpp"

namespace rondo_torch {

int backend::check_root(int64_t root, const char *title) const {
  TORCH_CHECK(root >= 0 && root < getSize(), title, ": invalid root rank: ", root);
  return static_cast<int>(root);
}

void backend::call(const pending_work &one, const collective_call &c) {
  struct rondo_collective_desc what =
      rondo_reduce(0, c.count, c.what.dtype, c.what.redop, static_cast<uint32_t>(c.root));
  what.kind = c.kind;
  what.scalar = c.what.scalar;
  one->call(current_comm(one), what, c.send, c.recv);
}

// An empty tensor for one `like` of each rank, along a new dimension 0.
static at::Tensor gathered_empty(const at::Tensor &like, int size) {
  std::vector<int64_t> shape = {size};
  shape.insert(shape.end(), like.sizes().begin(), like.sizes().end());
  return at::empty(shape, like.options());
}

// The collective that brings the parts of all ranks to the rank that needs their reduction.
static int gathering_kind(int kind) {
  if (kind == RONDO_REDUCE_SCATTER)
    return RONDO_ALL_TO_ALL;
  return kind == RONDO_REDUCE ? RONDO_GATHER : RONDO_ALL_GATHER;
}

void backend::call_reduction(const pending_work &one, int kind, const at::Tensor &part,
                             const c10d::ReduceOp &op, const at::Tensor &input, int root) {
  bool has_result = kind != RONDO_REDUCE || root == getRank();
  at::Tensor result;
  if (is_emulated(part.scalar_type(), op)) {
    element e = element_to_move(part.scalar_type());
    at::Tensor send = input.defined() ? input : dense_input(part);
    if (has_result)
      result = gathered_empty(part, getSize());
    call(one, {gathering_kind(kind), e, e.count_in(part), send, result, root});
    if (has_result)
      one->then([part, result, op] { part.copy_(fold(result, op)); });
    return;
  }
  element e = element_to_reduce(part.scalar_type(), op);
  if (has_result)
    result = dense_output(*one, part, !input.defined());
  at::Tensor send = input.defined() ? input : has_result ? result : dense_input(part);
  call(one, {kind, e, e.count_in(part), send, result, root});
}

// ---------------------------------------------------- broadcast and reduce ---

backend::work_ptr backend::broadcast(tensors &data, const c10d::BroadcastOptions &opts) {
  const char *title = "rondo:broadcast";
  int root = check_root(opts.rootRank, title);
  at::Tensor &tensor = single_tensor(data, title);
  auto one = begin({c10d::OpType::BROADCAST, title, opts.timeout}, data, {data});
  at::Tensor dense = dense_output(*one, tensor, root == getRank());
  element e = element_to_move(tensor.scalar_type());
  call(one, {RONDO_BROADCAST, e, e.count_in(tensor), dense, dense, root});
  return end(one);
}

// Gathers the tensors of all ranks along a new dimension 0, and waits.
at::Tensor backend::gather_now(const at::Tensor &mine, milliseconds timeout) {
  at::Tensor all = gathered_empty(mine, getSize());
  auto one = begin({c10d::OpType::ALLGATHER, "rondo:sparse_all_reduce", timeout}, {}, {});
  call_all_gather(one, all, mine);
  one->seal();
  one->wait();
  return all;
}

// Waits for the other ranks before it returns, because their numbers of elements determine the
// buffers.
backend::work_ptr backend::sparse_all_reduce(at::Tensor &data, const c10d::AllreduceOptions &opts) {
  const char *title = "rondo:sparse_all_reduce";
  TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM, title, ": only sums are supported");
  TORCH_CHECK(data.device().is_cpu() && !is_coalescing(), title,
              ": only on the CPU, and not while coalescing");
  at::NoGradGuard no_grad;
  at::Tensor mine = data.coalesce();
  at::Tensor counts = gather_now(at::full({1}, mine._nnz(), at::kLong), opts.timeout);
  int64_t most = counts.max().item<int64_t>();
  std::vector<int64_t> shape = mine.values().sizes().vec();
  shape[0] = most;
  at::Tensor indices = at::zeros({mine.sparse_dim(), most}, at::kLong);
  at::Tensor values = at::zeros(shape, mine.values().options());
  indices.narrow(1, 0, mine._nnz()).copy_(mine.indices());
  values.narrow(0, 0, mine._nnz()).copy_(mine.values());
  at::Tensor all_indices = gather_now(indices, opts.timeout);
  at::Tensor all_values = gather_now(values, opts.timeout);
  std::vector<at::Tensor> places;
  std::vector<at::Tensor> parts;
  for (int64_t r = 0; r < getSize(); r++) {
    int64_t count = counts[r].item<int64_t>();
    places.push_back(all_indices[r].narrow(1, 0, count));
    parts.push_back(all_values[r].narrow(0, 0, count));
  }
  data.copy_(at::sparse_coo_tensor(at::cat(places, 1), at::cat(parts), data.sizes(), data.options())
                 .coalesce());
  return end(begin({c10d::OpType::ALLREDUCE, title, opts.timeout}, {}, {{data}}));
}

backend::work_ptr backend::allreduce(tensors &data, const c10d::AllreduceOptions &opts) {
  const char *title = "rondo:all_reduce";
  if (data.size() == 1 && data[0].is_sparse())
    return sparse_all_reduce(data[0], opts);
  at::Tensor &tensor = single_tensor(data, title);
  auto one = begin({c10d::OpType::ALLREDUCE, title, opts.timeout}, data, {data});
  call_reduction(one, RONDO_ALL_REDUCE, tensor, opts.reduceOp);
  return end(one);
}

backend::work_ptr backend::allreduce_coalesced(tensors &data,
                                               const c10d::AllreduceCoalescedOptions &opts) {
  const char *title = "rondo:all_reduce_coalesced";
  TORCH_CHECK(!data.empty(), title, ": requires non-empty tensor list");
  for (const auto &tensor : data)
    check_tensor(tensor, title);
  auto one = begin({c10d::OpType::ALLREDUCE_COALESCED, title, opts.timeout}, data, {data});
  for (const auto &tensor : data)
    call_reduction(one, RONDO_ALL_REDUCE, tensor, opts.reduceOp);
  return end(one);
}

backend::work_ptr backend::reduce(tensors &data, const c10d::ReduceOptions &opts) {
  const char *title = "rondo:reduce";
  int root = check_root(opts.rootRank, title);
  at::Tensor &tensor = single_tensor(data, title);
  auto one = begin({c10d::OpType::REDUCE, title, opts.timeout}, data, {data});
  call_reduction(one, RONDO_REDUCE, tensor, opts.reduceOp, {}, root);
  return end(one);
}

// --------------------------------------------------------------- all-gather ---

// `output` is contiguous and has space for all ranks.
void backend::call_all_gather(const pending_work &one, const at::Tensor &output,
                              const at::Tensor &input) {
  element e = element_to_move(input.scalar_type());
  call(one, {RONDO_ALL_GATHER, e, e.count_in(input), dense_input(input), output});
}

static void check_lists(size_t lists, size_t inputs, const char *title) {
  TORCH_CHECK(lists == inputs && lists > 0, title, ": ", lists, " lists of tensors and ", inputs,
              " tensors");
}

static void check_list(const std::vector<at::Tensor> &list, int size, const at::Tensor &like,
                       const char *title) {
  TORCH_CHECK(list.size() == static_cast<size_t>(size), title, ": invalid list of ", list.size(),
              " tensors for ", size, " ranks");
  check_same(list, like, title);
}

backend::work_ptr backend::allgather(tensor_lists &outputs, tensors &inputs,
                                     const c10d::AllgatherOptions &opts) {
  const char *title = "rondo:all_gather";
  at::Tensor &input = single_tensor(inputs, title);
  check_lists(outputs.size(), inputs.size(), title);
  check_list(outputs[0], getSize(), input, title);
  auto one = begin({c10d::OpType::ALLGATHER, title, opts.timeout}, inputs, outputs);
  call_all_gather(one, flat_output(*one, outputs[0]), input);
  return end(one);
}

backend::work_ptr backend::allgather_coalesced(tensor_lists &outputs, tensors &inputs,
                                               const c10d::AllgatherOptions &opts) {
  const char *title = "rondo:all_gather_coalesced";
  // `outputs` has a list for each rank, with a tensor for each input.
  TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()), title,
              ": output lists should be equal to world size");
  std::vector<tensors> by_input(inputs.size());
  for (size_t i = 0; i < inputs.size(); i++) {
    for (const auto &list : outputs) {
      TORCH_CHECK(list.size() == inputs.size(), title, ": invalid output size");
      by_input[i].push_back(list[i]);
    }
    check_tensor(inputs[i], title);
    check_same(by_input[i], inputs[i], title);
  }
  auto one = begin({c10d::OpType::ALLGATHER_COALESCED, title, opts.timeout}, inputs, outputs);
  for (size_t i = 0; i < inputs.size(); i++)
    call_all_gather(one, flat_output(*one, by_input[i]), inputs[i]);
  return end(one);
}

static void check_whole(const at::Tensor &whole, const at::Tensor &part, int size,
                        const char *title) {
  check_tensor(whole, title);
  check_tensor(part, title);
  TORCH_CHECK(whole.scalar_type() == part.scalar_type(), title, ": tensors of types ",
              whole.scalar_type(), " and ", part.scalar_type());
  TORCH_CHECK(whole.numel() == part.numel() * size, title, ": a tensor of ", whole.numel(),
              " elements is not ", size, " times one of ", part.numel());
}

// Each output is a tensor for all ranks.
backend::work_ptr backend::all_gather_tensors(const operation &what, const tensors &outputs,
                                              const tensors &inputs) {
  check_lists(outputs.size(), inputs.size(), what.title);
  for (size_t i = 0; i < inputs.size(); i++)
    check_whole(outputs[i], inputs[i], getSize(), what.title);
  auto one = begin(what, inputs, {outputs});
  for (size_t i = 0; i < inputs.size(); i++)
    call_all_gather(one, dense_output(*one, outputs[i], false), inputs[i]);
  return end(one);
}

backend::work_ptr backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                           const c10d::AllgatherOptions &opts) {
  return all_gather_tensors({c10d::OpType::_ALLGATHER_BASE, "rondo:_all_gather_base", opts.timeout},
                            {output}, {input});
}

backend::work_ptr backend::allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs,
                                                           const c10d::AllgatherOptions &opts) {
  return all_gather_tensors(
      {c10d::OpType::COALESCED, "rondo:all_gather_into_tensor_coalesced", opts.timeout}, outputs,
      inputs);
}

// ----------------------------------------------------------- reduce-scatter ---

backend::work_ptr backend::reduce_scatter(tensors &outputs, tensor_lists &inputs,
                                          const c10d::ReduceScatterOptions &opts) {
  const char *title = "rondo:reduce_scatter";
  at::Tensor &output = single_tensor(outputs, title);
  check_lists(inputs.size(), outputs.size(), title);
  check_list(inputs[0], getSize(), output, title);
  auto one = begin({c10d::OpType::REDUCE_SCATTER, title, opts.timeout}, inputs[0], {outputs});
  call_reduction(one, RONDO_REDUCE_SCATTER, output, opts.reduceOp, flat_input(inputs[0]));
  return end(one);
}

// Each input is a tensor for all ranks.
backend::work_ptr backend::reduce_scatter_tensors(const operation &what, const tensors &outputs,
                                                  const tensors &inputs, const c10d::ReduceOp &op) {
  check_lists(inputs.size(), outputs.size(), what.title);
  for (size_t i = 0; i < inputs.size(); i++)
    check_whole(inputs[i], outputs[i], getSize(), what.title);
  auto one = begin(what, inputs, {outputs});
  for (size_t i = 0; i < inputs.size(); i++)
    call_reduction(one, RONDO_REDUCE_SCATTER, outputs[i], op, dense_input(inputs[i]));
  return end(one);
}

backend::work_ptr backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                const c10d::ReduceScatterOptions &opts) {
  return reduce_scatter_tensors(
      {c10d::OpType::_REDUCE_SCATTER_BASE, "rondo:_reduce_scatter_base", opts.timeout}, {output},
      {input}, opts.reduceOp);
}

backend::work_ptr backend::reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                                           const c10d::ReduceScatterOptions &opts) {
  return reduce_scatter_tensors(
      {c10d::OpType::COALESCED, "rondo:reduce_scatter_tensor_coalesced", opts.timeout}, outputs,
      inputs, opts.reduceOp);
}

// -------------------------------------------------------- gather and scatter ---

void backend::check_root_list(const tensor_lists &lists, const at::Tensor &like, int root,
                              const char *title, const char *side) const {
  TORCH_CHECK(root == getRank() || lists.empty(), title, ": requires empty ", side, " on non-root");
  if (root != getRank())
    return;
  check_lists(lists.size(), 1, title);
  check_list(lists[0], getSize(), like, title);
}

backend::work_ptr backend::gather(tensor_lists &outputs, tensors &inputs,
                                  const c10d::GatherOptions &opts) {
  const char *title = "rondo:gather";
  int root = check_root(opts.rootRank, title);
  at::Tensor &input = single_tensor(inputs, title);
  check_root_list(outputs, input, root, title, "output");
  auto one = begin({c10d::OpType::GATHER, title, opts.timeout}, inputs, outputs);
  element e = element_to_move(input.scalar_type());
  at::Tensor recv = outputs.empty() ? at::Tensor() : flat_output(*one, outputs[0]);
  call(one, {RONDO_GATHER, e, e.count_in(input), dense_input(input), recv, root});
  return end(one);
}

backend::work_ptr backend::scatter(tensors &outputs, tensor_lists &inputs,
                                   const c10d::ScatterOptions &opts) {
  const char *title = "rondo:scatter";
  int root = check_root(opts.rootRank, title);
  at::Tensor &output = single_tensor(outputs, title);
  check_root_list(inputs, output, root, title, "input");
  bool is_root = !inputs.empty();
  auto one = begin({c10d::OpType::SCATTER, title, opts.timeout}, is_root ? inputs[0] : tensors(),
                   {outputs});
  element e = element_to_move(output.scalar_type());
  at::Tensor send = is_root ? flat_input(inputs[0]) : at::Tensor();
  at::Tensor recv = dense_output(*one, output, false);
  call(one, {RONDO_SCATTER, e, e.count_in(output), send, recv, root});
  return end(one);
}

// --------------------------------------------------------------- all-to-all ---

void backend::call_all_to_all_v(const pending_work &one, const at::Tensor &output,
                                const at::Tensor &input, std::vector<uint64_t> output_counts,
                                std::vector<uint64_t> input_counts) {
  element e = element_to_move(input.scalar_type());
  for (auto *counts : {&output_counts, &input_counts})
    for (uint64_t &count : *counts)
      count *= e.per;
  one->call(
      current_comm(one),
      rondo_all_to_all_v(0, e.dtype, input_counts.data(), nullptr, output_counts.data(), nullptr),
      input, output);
}

// Elements for each rank. Without splits each rank gets as many rows.
static std::vector<uint64_t> split_counts(const at::Tensor &tensor,
                                          const std::vector<int64_t> &splits, int size,
                                          const char *title) {
  int64_t rows = tensor.dim() ? tensor.size(0) : tensor.numel();
  int64_t row = rows ? tensor.numel() / rows : 0;
  std::vector<uint64_t> counts;
  TORCH_CHECK(splits.empty() || splits.size() == static_cast<size_t>(size), title,
              ": Number of tensor splits not equal to group size");
  TORCH_CHECK(!splits.empty() || rows % size == 0, title,
              ": Tensor's dim 0 does not divide equally across group size");
  int64_t sum = 0;
  for (int i = 0; i < size; i++) {
    int64_t split = splits.empty() ? rows / size : splits[static_cast<size_t>(i)];
    TORCH_CHECK(split >= 0, title, ": a split of ", split, " rows");
    counts.push_back(static_cast<uint64_t>(split * row));
    sum += split;
  }
  TORCH_CHECK(sum == rows, title, ": Split sizes doesn't match total dim 0 size");
  return counts;
}

backend::work_ptr backend::alltoall_base(at::Tensor &output, at::Tensor &input,
                                         std::vector<int64_t> &output_splits,
                                         std::vector<int64_t> &input_splits,
                                         const c10d::AllToAllOptions &opts) {
  const char *title = "rondo:all_to_all";
  tensors outputs = {output};
  tensors inputs = {input};
  check_tensor(output, title);
  check_tensor(input, title);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), title, ": Tensors have different types");
  std::vector<uint64_t> out = split_counts(output, output_splits, getSize(), title);
  std::vector<uint64_t> in = split_counts(input, input_splits, getSize(), title);
  bool is_even = output_splits.empty() && input_splits.empty();
  TORCH_CHECK(!is_even || output.numel() == input.numel(), title,
              ": Tensors of different sizes without splits");
  auto one = begin({c10d::OpType::ALLTOALL_BASE, title, opts.timeout}, inputs, {outputs});
  at::Tensor from = dense_input(input);
  at::Tensor to = dense_output(*one, output, false);
  element e = element_to_move(input.scalar_type());
  if (is_even)
    call(one, {RONDO_ALL_TO_ALL, e, in[0] * e.per, from, to});
  else
    call_all_to_all_v(one, to, from, out, in);
  return end(one);
}

static std::vector<uint64_t> list_counts(const std::vector<at::Tensor> &list) {
  std::vector<uint64_t> sizes;
  for (const auto &tensor : list)
    sizes.push_back(static_cast<uint64_t>(tensor.numel()));
  return sizes;
}

// The tensors of a list may differ in size, so one flat tensor each way holds them.
backend::work_ptr backend::alltoall(tensors &outputs, tensors &inputs,
                                    const c10d::AllToAllOptions &opts) {
  const char *title = "rondo:all_to_all";
  auto size = static_cast<size_t>(getSize());
  TORCH_CHECK(outputs.size() == size && inputs.size() == size, title,
              ": each list needs one tensor for each rank");
  for (const auto *list : {&outputs, &inputs})
    for (const auto &tensor : *list) {
      check_tensor(tensor, title);
      TORCH_CHECK(tensor.scalar_type() == inputs[0].scalar_type(), title,
                  ": Tensors have different types");
    }
  auto one = begin({c10d::OpType::ALLTOALL, title, opts.timeout}, inputs, {outputs});
  at::NoGradGuard no_grad;
  tensors rows; // copies, because an input may be an output too
  for (const auto &tensor : inputs)
    rows.push_back(tensor.reshape({-1}));
  call_all_to_all_v(one, flat_output(*one, outputs), at::cat(rows), list_counts(outputs),
                    list_counts(inputs));
  return end(one);
}

// ------------------------------------------------------------------ barriers ---

backend::work_ptr backend::barrier(const c10d::BarrierOptions &opts) {
  // A barrier of a device follows the work of the current stream.
  c10::Device device = opts.device.value_or(c10::kCPU);
  if (device.is_cuda() && !device.has_index())
    device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  if (!device.is_cuda())
    device = c10::kCPU;
  auto one = begin({c10d::OpType::BARRIER, "rondo:barrier", opts.timeout, device}, {}, {});
  one->call(current_comm(one), rondo_barrier(0), {}, {});
  return end(one);
}

} // namespace rondo_torch
