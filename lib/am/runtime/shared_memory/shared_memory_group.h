// The process group of host tensors for ranks that are all on one host: a Gloo group whose common
// training collectives run through shared memory (exchange.h).
//
// Shared memory serves all-reduce (sum, minimum, maximum), all-gather into a tensor,
// reduce-scatter (sum), broadcast and all-to-all of contiguous tensors. Reductions must have a
// dtype that combine.h supports. Gloo serves all other collectives. Reductions combine the ranks'
// values in the order of the ranks' indices in the group. Collectives run one at a time, in the
// order of their calls; collectives that Gloo serves run in a separate queue.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "am/runtime/gloo_group.h"
#include "am/runtime/shared_memory/channel.h"
#include "am/runtime/shared_memory/exchange.h"
#include "am/runtime/shared_memory/task_queue.h"

namespace am::runtime::shared_memory {

class SharedMemoryGroup final : public GlooGroup {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  // Arguments as for GlooGroup's constructor; `channel` connects the ranks of the group.
  SharedMemoryGroup(std::unique_ptr<Channel> channel, const c10::intrusive_ptr<c10d::Store>& store,
                    int rank, int size, const c10::intrusive_ptr<Options>& options);
  // Finishes pending collectives. If an exception destroys the group, leaves the channel first:
  // pending collectives then fail on this rank and on its peers.
  ~SharedMemoryGroup() override;

  Work allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  Work _allgather_base(at::Tensor& out, at::Tensor& in,
                       const c10d::AllgatherOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                            const c10d::ReduceScatterOptions& options) override;
  Work broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  Work alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_rows,
                     std::vector<int64_t>& in_rows, const c10d::AllToAllOptions& options) override;
  void abort() override;

 private:
  Exchange::Deadline deadline() const;

  const std::unique_ptr<Channel> channel_;
  const std::chrono::milliseconds timeout_;
  Exchange exchange_;
  TaskQueue tasks_;  // destroyed first, because its tasks use the other members
};

}  // namespace am::runtime::shared_memory
