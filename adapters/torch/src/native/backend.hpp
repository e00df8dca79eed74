// The c10d backend: a process group is a communicator of Rondo, with one more for each name and each tag
// that is used in it. Calls of a communicator match by their order; communicators do not wait for each
// other, and so neither do process groups, names and tags.
#ifndef RONDO_ADAPTERS_TORCH_BACKEND_HPP
#define RONDO_ADAPTERS_TORCH_BACKEND_HPP

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "element.hpp"
#include "home.hpp"
#include "work.hpp"

namespace rondo_torch {

// From here on this thread's operations match those of the same name on other ranks, in every process
// group by itself. An empty name: by their order again. Returns the name until now.
std::string name_operations(std::string name);

struct group_settings {
  int rank, size;
  milliseconds timeout;
  std::string name;
  std::vector<int64_t> members; // ranks of the default group; empty: this is the default group
};

class backend final : public c10d::Backend {
public:
  using work_ptr = c10::intrusive_ptr<c10d::Work>;
  using tensors = std::vector<at::Tensor>;
  using tensor_lists = std::vector<std::vector<at::Tensor>>;

  // Waits for nobody but for rank 0, and only where it needs a job of its own.
  static c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store> &store,
                                                const group_settings &settings);
  backend(std::shared_ptr<home> home, std::vector<uint32_t> members,
          const group_settings &settings);
  ~backend() override;

  const std::string getBackendName() const override { return "rondo"; }
  bool supportsSplitting() const override { return true; }
  uint64_t getSequenceNumberForGroup() override;
  void setSequenceNumberForGroup() override {}

  work_ptr broadcast(tensors &data, const c10d::BroadcastOptions &opts) override;
  work_ptr allreduce(tensors &data, const c10d::AllreduceOptions &opts) override;
  work_ptr allreduce_coalesced(tensors &data, const c10d::AllreduceCoalescedOptions &opts) override;
  work_ptr reduce(tensors &data, const c10d::ReduceOptions &opts) override;
  work_ptr allgather(tensor_lists &outputs, tensors &inputs,
                     const c10d::AllgatherOptions &opts) override;
  work_ptr _allgather_base(at::Tensor &output, at::Tensor &input,
                           const c10d::AllgatherOptions &opts) override;
  work_ptr allgather_coalesced(tensor_lists &outputs, tensors &inputs,
                               const c10d::AllgatherOptions &opts) override;
  work_ptr allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs,
                                           const c10d::AllgatherOptions &opts) override;
  work_ptr gather(tensor_lists &outputs, tensors &inputs, const c10d::GatherOptions &opts) override;
  work_ptr scatter(tensors &outputs, tensor_lists &inputs,
                   const c10d::ScatterOptions &opts) override;
  work_ptr reduce_scatter(tensors &outputs, tensor_lists &inputs,
                          const c10d::ReduceScatterOptions &opts) override;
  work_ptr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                const c10d::ReduceScatterOptions &opts) override;
  work_ptr reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                           const c10d::ReduceScatterOptions &opts) override;
  work_ptr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                         std::vector<int64_t> &input_splits,
                         const c10d::AllToAllOptions &opts) override;
  work_ptr alltoall(tensors &outputs, tensors &inputs, const c10d::AllToAllOptions &opts) override;
  work_ptr send(tensors &data, int to, int tag) override;
  work_ptr recv(tensors &data, int from, int tag) override;
  work_ptr recvAnysource(tensors &data, int tag) override;
  work_ptr barrier(const c10d::BarrierOptions &opts) override;
  void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) override;

  void eagerConnectSingleDevice(at::Device device) override;
  void startCoalescing() override;
  work_ptr endCoalescing() override;

  // These are no part of the interface in every version since 2.4, so they cannot say override.
  virtual bool supportsCoalescing() const { return true; }
  virtual void setTimeout(milliseconds timeout);
  virtual void abort();
  virtual void shutdown();
  virtual c10::intrusive_ptr<Options> getBackendOptions();
  virtual c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                                  const std::vector<int> &ranks,
                                                  const c10::intrusive_ptr<Options> &opts);

private:
  using work_to_make = c10::intrusive_ptr<work>;

  // One operation from its beginning to its end.
  struct operation {
    c10d::OpType type;
    const char *title;
    milliseconds timeout;
    c10::Device device = c10::kCPU; // of one without tensors
  };
  work_to_make begin(const operation &what, const tensors &inputs, const tensor_lists &outputs);
  work_ptr end(const work_to_make &one);
  bool is_coalescing() const;

  // That of the thread's name, or the main one, for tensors where those of the work are.
  std::shared_ptr<const channel> channel_here(const work_to_make &one);
  // For a send or a receive, such as "to 3".
  std::shared_ptr<const channel> channel_of_tag(const work_to_make &one, int tag,
                                                const std::string &which);
  std::shared_ptr<const channel> channel_named(const std::string &name,
                                               c10::Device device = c10::kCPU);
  std::shared_ptr<const channel> make_channel(const std::string &name, struct rondo_context context,
                                              std::shared_ptr<const lane> on);
  void leave();

  void call_folded_all_reduce(const work_to_make &one, const at::Tensor &data,
                              const c10d::ReduceOp &op);
  void call_folded_reduce(const work_to_make &one, const at::Tensor &data, const c10d::ReduceOp &op,
                          int root);
  void call_folded_reduce_scatter(const work_to_make &one, const at::Tensor &output,
                                  const at::Tensor &input, const c10d::ReduceOp &op);
  void call_all_gather(const work_to_make &one, const at::Tensor &output, const at::Tensor &input);
  void call_reduce_scatter(const work_to_make &one, const at::Tensor &output,
                           const at::Tensor &input, const c10d::ReduceOp &op);
  void call_all_reduce(const work_to_make &one, const at::Tensor &data, const c10d::ReduceOp &op);
  void call_all_to_all_v(const work_to_make &one, const at::Tensor &output, const at::Tensor &input,
                         const std::vector<uint64_t> &output_counts,
                         const std::vector<uint64_t> &input_counts);
  work_ptr sparse_all_reduce(at::Tensor &data, const c10d::AllreduceOptions &opts);
  at::Tensor gather_now(const at::Tensor &mine, milliseconds timeout);
  int check_root(int64_t root, const char *title) const;
  // A byte to or from a rank, in a channel.
  work_to_make token(const std::shared_ptr<const channel> &via, int from, int to);
  void monitor(const std::shared_ptr<const channel> &via, milliseconds timeout, bool names_all);
  void be_monitored(const std::shared_ptr<const channel> &via, milliseconds timeout);

  std::shared_ptr<home> home_;
  std::vector<uint32_t> members_; // by their ranks in the home
  group_settings settings_;
  uint64_t key_;
  std::mutex lock_; // over what follows
  std::map<std::string, std::shared_ptr<const channel>> channels_;
  // The same communicators with other lanes: sends and receives do not wait for each other.
  std::map<std::string, std::shared_ptr<const channel>> beside_;
  uint64_t sequence_ = 0;
  uint64_t failed_barriers_ = 0; // monitored ones, each of which ended its channel
  bool is_gone_ = false;
};

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_BACKEND_HPP
