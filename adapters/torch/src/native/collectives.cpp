// The collective operations of the backend.
#include "backend.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "tensors.hpp"

namespace rondo_torch {

int backend::check_root(int64_t root, const char *title) const {
  TORCH_CHECK(root >= 0 && root < getSize(), title, ": invalid root rank: ", root);
  return static_cast<int>(root);
}

static void reduce_as(struct rondo_collective_desc &what, const reduction &r) {
  what.redop = r.redop;
  what.scalar = r.scalar;
}

// --------------------------------------------- reductions that Rondo has not ---

// Room for as much as `like` of each of `size` ranks.
static at::Tensor room_for(const at::Tensor &like, int size) {
  std::vector<int64_t> shape = {size};
  shape.insert(shape.end(), like.sizes().begin(), like.sizes().end());
  return at::empty(shape, like.options());
}

static void fold_into(work &one, const at::Tensor &target, const at::Tensor &parts,
                      const c10d::ReduceOp &op) {
  one.keep(parts);
  one.then([target, parts, op] {
    at::NoGradGuard inner;
    target.copy_(fold(parts, op));
  });
}

void backend::call_folded_all_reduce(const work_to_make &one, const at::Tensor &data,
                                     const c10d::ReduceOp &op) {
  at::Tensor parts = room_for(data, getSize());
  call_all_gather(one, parts, data);
  fold_into(*one, data, parts, op);
}

void backend::call_folded_reduce(const work_to_make &one, const at::Tensor &data,
                                 const c10d::ReduceOp &op, int root) {
  element e = element_to_move(data.scalar_type());
  at::Tensor dense = to_read(*one, data);
  at::Tensor parts;
  if (root == getRank())
    parts = room_for(data, getSize());
  one->call(channel_here(one),
            rondo_gather(0, static_cast<uint64_t>(data.numel()) * e.per, e.dtype,
                         static_cast<uint32_t>(root)),
            dense.const_data_ptr(), parts.defined() ? parts.mutable_data_ptr() : nullptr);
  if (parts.defined())
    fold_into(*one, data, parts, op);
}

void backend::call_folded_reduce_scatter(const work_to_make &one, const at::Tensor &output,
                                         const at::Tensor &input, const c10d::ReduceOp &op) {
  element e = element_to_move(output.scalar_type());
  at::Tensor parts = room_for(output, getSize());
  one->call(channel_here(one),
            rondo_all_to_all(0, static_cast<uint64_t>(output.numel()) * e.per, e.dtype),
            input.const_data_ptr(), parts.mutable_data_ptr());
  fold_into(*one, output, parts, op);
}

// ---------------------------------------------------- broadcast and reduce ---

backend::work_ptr backend::broadcast(tensors &data, const c10d::BroadcastOptions &opts) {
  const char *title = "rondo:broadcast";
  int root = check_root(opts.rootRank, title);
  at::Tensor &tensor = the_only(data, title);
  auto one = begin({c10d::OpType::BROADCAST, title, opts.timeout}, data, {data});
  at::Tensor dense = to_write(*one, tensor, root == getRank());
  element e = element_to_move(tensor.scalar_type());
  void *memory = dense.mutable_data_ptr();
  one->call(channel_here(one),
            rondo_broadcast(0, static_cast<uint64_t>(tensor.numel()) * e.per, e.dtype,
                            static_cast<uint32_t>(root)),
            memory, memory);
  return end(one);
}

void backend::call_all_reduce(const work_to_make &one, const at::Tensor &data,
                              const c10d::ReduceOp &op) {
  if (is_folded(data.scalar_type(), op)) {
    call_folded_all_reduce(one, data, op);
    return;
  }
  reduction r = reduction_of(data.scalar_type(), op);
  at::Tensor dense = to_write(*one, data, true);
  struct rondo_collective_desc what =
      rondo_all_reduce(0, static_cast<uint64_t>(data.numel()) * r.what.per, r.what.dtype, r.redop);
  reduce_as(what, r);
  void *memory = dense.mutable_data_ptr();
  one->call(channel_here(one), what, memory, memory);
}

// What all ranks have, along a new dimension 0.
at::Tensor backend::gather_now(const at::Tensor &mine, milliseconds timeout) {
  at::Tensor all = room_for(mine, getSize());
  auto one = begin({c10d::OpType::ALLGATHER, "rondo:sparse_all_reduce", timeout}, {}, {});
  call_all_gather(one, all, mine);
  one->seal();
  one->wait();
  return all;
}

// Ranks have different numbers of elements, which have to be known before there is room for them: so this one
// waits for the others before it returns.
backend::work_ptr backend::sparse_all_reduce(at::Tensor &data, const c10d::AllreduceOptions &opts) {
  const char *title = "rondo:sparse_all_reduce";
  TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM, title, ": only sums are supported");
  TORCH_CHECK(data.device().is_cpu() && !is_coalescing(), title,
              ": only on the CPU, and not inside of coalescing");
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
  at::Tensor &tensor = the_only(data, title);
  auto one = begin({c10d::OpType::ALLREDUCE, title, opts.timeout}, data, {data});
  call_all_reduce(one, tensor, opts.reduceOp);
  return end(one);
}

backend::work_ptr backend::allreduce_coalesced(tensors &data,
                                               const c10d::AllreduceCoalescedOptions &opts) {
  const char *title = "rondo:all_reduce_coalesced";
  TORCH_CHECK(!data.empty(), title, ": requires non-empty tensor list");
  for (const auto &tensor : data)
    check_reach(tensor, title);
  auto one = begin({c10d::OpType::ALLREDUCE_COALESCED, title, opts.timeout}, data, {data});
  for (const auto &tensor : data)
    call_all_reduce(one, tensor, opts.reduceOp);
  return end(one);
}

backend::work_ptr backend::reduce(tensors &data, const c10d::ReduceOptions &opts) {
  const char *title = "rondo:reduce";
  int root = check_root(opts.rootRank, title);
  at::Tensor &tensor = the_only(data, title);
  auto one = begin({c10d::OpType::REDUCE, title, opts.timeout}, data, {data});
  if (is_folded(tensor.scalar_type(), opts.reduceOp)) {
    call_folded_reduce(one, tensor, opts.reduceOp, root);
    return end(one);
  }
  reduction r = reduction_of(tensor.scalar_type(), opts.reduceOp);
  bool is_root = root == getRank();
  at::Tensor dense = is_root ? to_write(*one, tensor, true) : to_read(*one, tensor);
  struct rondo_collective_desc what =
      rondo_reduce(0, static_cast<uint64_t>(tensor.numel()) * r.what.per, r.what.dtype, r.redop,
                   static_cast<uint32_t>(root));
  reduce_as(what, r);
  one->call(channel_here(one), what, dense.const_data_ptr(),
            is_root ? dense.mutable_data_ptr() : nullptr);
  return end(one);
}

// --------------------------------------------------------------- all-gather ---

// `output` is contiguous and holds what all ranks have.
void backend::call_all_gather(const work_to_make &one, const at::Tensor &output,
                              const at::Tensor &input) {
  element e = element_to_move(input.scalar_type());
  at::Tensor dense = to_read(*one, input);
  one->call(channel_here(one),
            rondo_all_gather(0, static_cast<uint64_t>(input.numel()) * e.per, e.dtype),
            dense.const_data_ptr(), output.mutable_data_ptr());
}

static void check_lists(size_t lists, size_t inputs, const char *title) {
  TORCH_CHECK(lists == inputs && lists > 0, title, ": ", lists, " lists of tensors and ", inputs,
              " tensors");
}

static void check_list(const std::vector<at::Tensor> &list, int size, const at::Tensor &like,
                       const char *title) {
  TORCH_CHECK(list.size() == static_cast<size_t>(size), title, ": invalid list of ", list.size(),
              " tensors, one a rank of ", size, " is needed");
  check_alike(list, like, title);
}

backend::work_ptr backend::allgather(tensor_lists &outputs, tensors &inputs,
                                     const c10d::AllgatherOptions &opts) {
  const char *title = "rondo:all_gather";
  at::Tensor &input = the_only(inputs, title);
  check_lists(outputs.size(), inputs.size(), title);
  check_list(outputs[0], getSize(), input, title);
  auto one = begin({c10d::OpType::ALLGATHER, title, opts.timeout}, inputs, outputs);
  call_all_gather(one, list_to_write(*one, outputs[0]), input);
  return end(one);
}

backend::work_ptr backend::allgather_coalesced(tensor_lists &outputs, tensors &inputs,
                                               const c10d::AllgatherOptions &opts) {
  const char *title = "rondo:all_gather_coalesced";
  // They come as one list a rank of one tensor an input.
  TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()), title,
              ": output lists should be equal to world size");
  std::vector<tensors> by_input(inputs.size());
  for (size_t i = 0; i < inputs.size(); i++) {
    for (const auto &list : outputs) {
      TORCH_CHECK(list.size() == inputs.size(), title, ": invalid output size");
      by_input[i].push_back(list[i]);
    }
    check_reach(inputs[i], title);
    check_alike(by_input[i], inputs[i], title);
  }
  auto one = begin({c10d::OpType::ALLGATHER_COALESCED, title, opts.timeout}, inputs, outputs);
  for (size_t i = 0; i < inputs.size(); i++)
    call_all_gather(one, list_to_write(*one, by_input[i]), inputs[i]);
  return end(one);
}

static void check_whole(const at::Tensor &whole, const at::Tensor &part, int size,
                        const char *title) {
  check_reach(whole, title);
  check_reach(part, title);
  TORCH_CHECK(whole.scalar_type() == part.scalar_type(), title, ": tensors of types ",
              whole.scalar_type(), " and ", part.scalar_type());
  TORCH_CHECK(whole.numel() == part.numel() * size, title, ": a tensor of ", whole.numel(),
              " elements is not ", size, " times one of ", part.numel());
}

backend::work_ptr backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                           const c10d::AllgatherOptions &opts) {
  tensors outputs = {output};
  tensors inputs = {input};
  const char *title = "rondo:_all_gather_base";
  check_whole(output, input, getSize(), title);
  auto one = begin({c10d::OpType::_ALLGATHER_BASE, title, opts.timeout}, inputs, {outputs});
  call_all_gather(one, to_write(*one, output, false), input);
  return end(one);
}

backend::work_ptr backend::allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs,
                                                           const c10d::AllgatherOptions &opts) {
  const char *title = "rondo:all_gather_into_tensor_coalesced";
  check_lists(outputs.size(), inputs.size(), title);
  for (size_t i = 0; i < inputs.size(); i++)
    check_whole(outputs[i], inputs[i], getSize(), title);
  auto one = begin({c10d::OpType::COALESCED, title, opts.timeout}, inputs, {outputs});
  for (size_t i = 0; i < inputs.size(); i++)
    call_all_gather(one, to_write(*one, outputs[i], false), inputs[i]);
  return end(one);
}

// ----------------------------------------------------------- reduce-scatter ---

// `input` is contiguous and holds what is for all ranks.
void backend::call_reduce_scatter(const work_to_make &one, const at::Tensor &output,
                                  const at::Tensor &input, const c10d::ReduceOp &op) {
  if (is_folded(output.scalar_type(), op)) {
    call_folded_reduce_scatter(one, output, input, op);
    return;
  }
  reduction r = reduction_of(output.scalar_type(), op);
  at::Tensor dense = to_write(*one, output, false);
  struct rondo_collective_desc what = rondo_reduce_scatter(
      0, static_cast<uint64_t>(output.numel()) * r.what.per, r.what.dtype, r.redop);
  reduce_as(what, r);
  one->call(channel_here(one), what, input.const_data_ptr(), dense.mutable_data_ptr());
}

backend::work_ptr backend::reduce_scatter(tensors &outputs, tensor_lists &inputs,
                                          const c10d::ReduceScatterOptions &opts) {
  const char *title = "rondo:reduce_scatter";
  at::Tensor &output = the_only(outputs, title);
  check_lists(inputs.size(), outputs.size(), title);
  check_list(inputs[0], getSize(), output, title);
  auto one = begin({c10d::OpType::REDUCE_SCATTER, title, opts.timeout}, inputs[0], {outputs});
  call_reduce_scatter(one, output, list_to_read(*one, inputs[0]), opts.reduceOp);
  return end(one);
}

backend::work_ptr backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                const c10d::ReduceScatterOptions &opts) {
  tensors outputs = {output};
  tensors inputs = {input};
  const char *title = "rondo:_reduce_scatter_base";
  check_whole(input, output, getSize(), title);
  auto one = begin({c10d::OpType::_REDUCE_SCATTER_BASE, title, opts.timeout}, inputs, {outputs});
  call_reduce_scatter(one, output, to_read(*one, input), opts.reduceOp);
  return end(one);
}

backend::work_ptr backend::reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                                           const c10d::ReduceScatterOptions &opts) {
  const char *title = "rondo:reduce_scatter_tensor_coalesced";
  check_lists(inputs.size(), outputs.size(), title);
  for (size_t i = 0; i < inputs.size(); i++)
    check_whole(inputs[i], outputs[i], getSize(), title);
  auto one = begin({c10d::OpType::COALESCED, title, opts.timeout}, inputs, {outputs});
  for (size_t i = 0; i < inputs.size(); i++)
    call_reduce_scatter(one, outputs[i], to_read(*one, inputs[i]), opts.reduceOp);
  return end(one);
}

// -------------------------------------------------------- gather and scatter ---

backend::work_ptr backend::gather(tensor_lists &outputs, tensors &inputs,
                                  const c10d::GatherOptions &opts) {
  const char *title = "rondo:gather";
  int root = check_root(opts.rootRank, title);
  at::Tensor &input = the_only(inputs, title);
  bool is_root = root == getRank();
  TORCH_CHECK(is_root || outputs.empty(), title, ": requires empty output on non-root");
  if (is_root) {
    check_lists(outputs.size(), inputs.size(), title);
    check_list(outputs[0], getSize(), input, title);
  }
  auto one = begin({c10d::OpType::GATHER, title, opts.timeout}, inputs, outputs);
  element e = element_to_move(input.scalar_type());
  at::Tensor dense = to_read(*one, input);
  void *recv = is_root ? list_to_write(*one, outputs[0]).mutable_data_ptr() : nullptr;
  one->call(channel_here(one),
            rondo_gather(0, static_cast<uint64_t>(input.numel()) * e.per, e.dtype,
                         static_cast<uint32_t>(root)),
            dense.const_data_ptr(), recv);
  return end(one);
}

backend::work_ptr backend::scatter(tensors &outputs, tensor_lists &inputs,
                                   const c10d::ScatterOptions &opts) {
  const char *title = "rondo:scatter";
  int root = check_root(opts.rootRank, title);
  at::Tensor &output = the_only(outputs, title);
  bool is_root = root == getRank();
  TORCH_CHECK(is_root || inputs.empty(), title, ": requires empty input on non-root");
  if (is_root) {
    check_lists(inputs.size(), outputs.size(), title);
    check_list(inputs[0], getSize(), output, title);
  }
  auto one = begin({c10d::OpType::SCATTER, title, opts.timeout}, is_root ? inputs[0] : tensors(),
                   {outputs});
  element e = element_to_move(output.scalar_type());
  const void *send = is_root ? list_to_read(*one, inputs[0]).const_data_ptr() : nullptr;
  at::Tensor dense = to_write(*one, output, false);
  one->call(channel_here(one),
            rondo_scatter(0, static_cast<uint64_t>(output.numel()) * e.per, e.dtype,
                          static_cast<uint32_t>(root)),
            send, dense.mutable_data_ptr());
  return end(one);
}

// --------------------------------------------------------------- all-to-all ---

void backend::call_all_to_all_v(const work_to_make &one, const at::Tensor &output,
                                const at::Tensor &input, const std::vector<uint64_t> &output_counts,
                                const std::vector<uint64_t> &input_counts) {
  element e = element_to_move(input.scalar_type());
  std::vector<uint64_t> out = output_counts;
  std::vector<uint64_t> in = input_counts;
  for (auto *counts : {&out, &in})
    for (uint64_t &count : *counts)
      count *= e.per;
  one->call(channel_here(one),
            rondo_all_to_all_v(0, e.dtype, in.data(), nullptr, out.data(), nullptr),
            input.const_data_ptr(), output.mutable_data_ptr());
}

// Elements for each rank. Without splits the rows are shared evenly.
static std::vector<uint64_t> counts_of(const at::Tensor &tensor, const std::vector<int64_t> &splits,
                                       int size, const char *title) {
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
  check_reach(output, title);
  check_reach(input, title);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), title, ": Tensors are not of one type");
  std::vector<uint64_t> out = counts_of(output, output_splits, getSize(), title);
  std::vector<uint64_t> in = counts_of(input, input_splits, getSize(), title);
  bool is_even = output_splits.empty() && input_splits.empty();
  TORCH_CHECK(!is_even || output.numel() == input.numel(), title,
              ": Tensors of different sizes without splits");
  auto one = begin({c10d::OpType::ALLTOALL_BASE, title, opts.timeout}, inputs, {outputs});
  at::Tensor from = to_read(*one, input);
  at::Tensor to = to_write(*one, output, false);
  element e = element_to_move(input.scalar_type());
  if (is_even)
    one->call(channel_here(one), rondo_all_to_all(0, in[0] * e.per, e.dtype), from.const_data_ptr(),
              to.mutable_data_ptr());
  else
    call_all_to_all_v(one, to, from, out, in);
  return end(one);
}

static std::vector<uint64_t> sizes_of(const std::vector<at::Tensor> &list) {
  std::vector<uint64_t> sizes;
  for (const auto &tensor : list)
    sizes.push_back(static_cast<uint64_t>(tensor.numel()));
  return sizes;
}

static std::vector<at::Tensor> flat(const std::vector<at::Tensor> &list) {
  std::vector<at::Tensor> parts;
  for (const auto &tensor : list)
    parts.push_back(tensor.reshape({-1}));
  return parts;
}

// The lists' tensors may differ in size, so they go through one tensor each way.
backend::work_ptr backend::alltoall(tensors &outputs, tensors &inputs,
                                    const c10d::AllToAllOptions &opts) {
  const char *title = "rondo:all_to_all";
  auto size = static_cast<size_t>(getSize());
  TORCH_CHECK(outputs.size() == size && inputs.size() == size, title,
              ": one tensor a rank is needed, each way");
  for (const auto *list : {&outputs, &inputs})
    for (const auto &tensor : *list) {
      check_reach(tensor, title);
      TORCH_CHECK(tensor.scalar_type() == inputs[0].scalar_type(), title,
                  ": Tensors are not of one type");
    }
  auto one = begin({c10d::OpType::ALLTOALL, title, opts.timeout}, inputs, {outputs});
  at::NoGradGuard no_grad;
  std::vector<uint64_t> out = sizes_of(outputs);
  at::Tensor from = at::cat(flat(inputs));
  int64_t total = 0;
  for (uint64_t count : out)
    total += static_cast<int64_t>(count);
  at::Tensor to = at::empty({total}, inputs[0].options());
  one->keep(from);
  one->keep(to);
  one->then([outputs, to] {
    at::NoGradGuard inner;
    int64_t at = 0;
    for (const auto &tensor : outputs) {
      tensor.copy_(to.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
  });
  call_all_to_all_v(one, to, from, out, sizes_of(inputs));
  return end(one);
}

// ------------------------------------------------------------------ barriers ---

backend::work_ptr backend::barrier(const c10d::BarrierOptions &opts) {
  // Of a device, if one is named: then it comes behind what the current stream holds.
  c10::Device device = opts.device.value_or(c10::kCPU);
  if (device.is_cuda() && !device.has_index())
    device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  if (!device.is_cuda())
    device = c10::kCPU;
  auto one = begin({c10d::OpType::BARRIER, "rondo:barrier", opts.timeout, device}, {}, {});
  one->call(channel_here(one), rondo_barrier(0), nullptr, nullptr);
  return end(one);
}

} // namespace rondo_torch
