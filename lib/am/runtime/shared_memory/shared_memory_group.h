// The process group of host tensors whose ranks are all on one host: Gloo's, with the collectives
// that training consists of done through shared memory (exchange.h).
//
// all-reduce (sum, minimum, maximum), all-gather into a tensor, reduce-scatter, broadcast and
// all-to-all of contiguous tensors, for the dtypes of combine.h where there is arithmetic; the rest
// is Gloo's. Sums run in index order. They are asynchronous, and run in the order in which they are
// given, one at a time; so do Gloo's, in a queue of their own.
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

  // As GlooGroup; `channel` is that of the same ranks.
  SharedMemoryGroup(std::unique_ptr<Channel> channel, const c10::intrusive_ptr<c10d::Store>& store,
                    int rank, int size, const c10::intrusive_ptr<Options>& options);
  // Finishes what is under way, unless an error is: then it leaves, and peers get an error.
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
  TaskQueue tasks_;  // ends first: its tasks use the others
};

}  // namespace am::runtime::shared_memory
