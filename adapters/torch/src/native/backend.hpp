// The c10d backend. A process group has a communicator of Rondo, and one more for each name and
// each tag that is used in it. Calls of a communicator match by their order. Communicators do not
// wait for each other.
#ifndef RONDO_ADAPTERS_TORCH_BACKEND_HPP
#define RONDO_ADAPTERS_TORCH_BACKEND_HPP

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "element.hpp"
#include "job.hpp"
#include "work.hpp"

namespace rondo_torch {

// From now on this thread's operations match operations of the same name, in each process group.
// With an empty name they match by their order. Returns the previous name.
std::string name_operations(std::string name);

using comm_map = std::map<std::string, communicator_ptr>;

class backend final : public c10d::Backend {
public:
  using work_ptr = c10::intrusive_ptr<c10d::Work>;
  using tensors = std::vector<at::Tensor>;
  using tensor_lists = std::vector<std::vector<at::Tensor>>;

  // Waits only for rank 0, and only if the group opens its own job.
  static c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store> &store,
                                                const group_settings &settings);
  backend(std::shared_ptr<job> owner, std::vector<uint32_t> members,
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

  // Not `override`: some versions of PyTorch since 2.4 do not have these.
  virtual bool supportsCoalescing() const { return true; }
  virtual void setTimeout(milliseconds timeout);
  virtual void abort();
  virtual void shutdown();
  virtual c10::intrusive_ptr<Options> getBackendOptions();
  virtual c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                                  const std::vector<int> &ranks,
                                                  const c10::intrusive_ptr<Options> &opts);

private:
  using pending_work = c10::intrusive_ptr<work>;

  struct operation {
    c10d::OpType type;
    const char *title;
    milliseconds timeout;
    c10::Device device = c10::kCPU; // if it has no tensors
  };
  pending_work begin(const operation &what, const tensors &inputs, const tensor_lists &outputs);
  work_ptr end(const pending_work &one);
  bool is_coalescing() const;

  // The communicator of the thread's name, for the device of the work.
  communicator_ptr current_comm(const pending_work &one);
  // The communicator of a send or a receive; `direction` is "to 3", "from 3" or "from any".
  communicator_ptr p2p_comm(const pending_work &one, int tag, const std::string &direction);
  communicator_ptr get_comm(const std::string &name, c10::Device device = c10::kCPU);
  communicator_ptr create_comm(const std::string &name, struct rondo_context context,
                               std::shared_ptr<const comm_stream> on);
  void end_group();

  // What an operation calls. Tensors are contiguous, and undefined where this rank has none.
  struct collective_call {
    int kind; // enum rondo_kind
    element what;
    uint64_t count; // elements of `what`
    at::Tensor send, recv;
    int root = 0;
  };
  void call(const pending_work &one, const collective_call &c);
  void call_all_gather(const pending_work &one, const at::Tensor &output, const at::Tensor &input);
  // Reduces into `part`: its own contents, or `input`, which is contiguous and has the parts of all
  // ranks.
  void call_reduction(const pending_work &one, int kind, const at::Tensor &part,
                      const c10d::ReduceOp &op, const at::Tensor &input = {}, int root = 0);
  void call_all_to_all_v(const pending_work &one, const at::Tensor &output, const at::Tensor &input,
                         std::vector<uint64_t> output_counts, std::vector<uint64_t> input_counts);
  work_ptr all_gather_tensors(const operation &what, const tensors &outputs, const tensors &inputs);
  work_ptr reduce_scatter_tensors(const operation &what, const tensors &outputs,
                                  const tensors &inputs, const c10d::ReduceOp &op);
  // Checks the list of a gather or scatter, which only the root has. `side`: "input" or "output".
  void check_root_list(const tensor_lists &lists, const at::Tensor &like, int root,
                       const char *title, const char *side) const;
  work_ptr sparse_all_reduce(at::Tensor &data, const c10d::AllreduceOptions &opts);
  at::Tensor gather_now(const at::Tensor &mine, milliseconds timeout);
  int check_root(int64_t root, const char *title) const;
  work_ptr send_or_recv(const operation &what, tensors &data, int peer, int tag);
  // Sends or receives one byte, for the monitored barrier.
  pending_work send_token(const communicator_ptr &via, int from, int to);
  void monitor_ranks(const communicator_ptr &via, milliseconds timeout, bool names_all);
  void report_to_monitor(const communicator_ptr &via, milliseconds timeout);

  std::shared_ptr<job> job_;
  std::vector<uint32_t> members_; // ranks of the job, by rank of the group
  group_settings settings_;
  uint64_t key_;
  std::mutex lock_; // protects what follows
  comm_map comms_;
  // The same communicators with other streams: sends and receives do not wait for each other.
  comm_map p2p_comms_;
  uint64_t sequence_ = 0;
  uint64_t failed_barriers_ = 0; // monitored ones; each has aborted its communicator
  bool is_shut_down_ = false;
};

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_BACKEND_HPP
