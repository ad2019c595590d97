// A process group, passed as a value: its ranks, this rank's index among them, and its collectives.
//
// c10d runs the collectives. The device of the tensor selects the backend: Gloo for host tensors
// (through shared memory if all ranks are on one host), NCCL or Gloo for an accelerator's tensors.
// A group of one rank needs no communication and no backend, so callers need not check the size.
//
// A collective that fails or times out throws a CollectiveError (an am::Error of kind kPeer). This
// error names the collective, the group and, if a watchdog runs, the ranks that did not arrive. A
// failure of this rank's own GPU throws a DeviceError. Arguments that c10d rejects throw
// Error(kUsage).
//
//   group.all_reduce(loss_sum);                    // in place
//   Pending gathered = group.all_gather_async(full, shard);
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "am/runtime/collective_error.h"
#include "am/runtime/engine.h"
#include "am/runtime/progress.h"

namespace am::runtime {

// PyTorch's ReduceOp. kAvg requires a floating-point dtype.
enum class ReduceOp { kSum, kAvg, kProduct, kMin, kMax, kBand, kBor, kBxor };

// State shared by the groups of one world: the progress record and callbacks.
struct GroupContext {
  Progress progress;
  // Returns the reason why a collective does not end; set by the watchdog. `timed_out`: as in
  // CollectiveError.
  std::function<Stall(const Collective& collective, bool timed_out)> explain;
  // If set, called for every collective and message that a group issues, except
  // monitored_barrier(). `bytes`: size of the output of an all-gather, of the input of any other
  // collective, or of the tensor of a message.
  std::function<void(const Collective& collective, int64_t bytes)> on_collective;
};

// The connections between the ranks of a group. Groups of a DeviceMesh with equal ranks share one
// communicator.
struct Communicator {
  std::shared_ptr<const CommunicatorId> id;
  int64_t index = 0;  // this rank's position in id->ranks
  // Backend for host tensors; null: the group has no collectives of host tensors.
  c10::intrusive_ptr<c10d::Backend> cpu;
  // Backend for tensors on an accelerator; null: the group has no collectives of these tensors.
  c10::intrusive_ptr<c10d::Backend> accelerator;
  std::shared_ptr<Engine> accelerator_engine;  // engine that created `accelerator`
  // Device of tensors that the group creates for its own use, for example in barrier().
  c10::Device device = c10::Device(c10::kCPU);
  bool user_buffers = false;  // see GroupOptions::user_buffers
  std::shared_ptr<GroupContext> context;
  std::atomic<uint64_t> sequence{0};
};

// A collective in progress. Call wait() before using the collective's tensors; further calls of
// wait() do nothing.
class Pending {
 public:
  Pending() = default;
  Pending(std::shared_ptr<Communicator> communicator, Collective collective,
          c10::intrusive_ptr<c10d::Work> work);

  void wait();
  bool active() const { return work_.defined(); }

 private:
  std::shared_ptr<Communicator> communicator_;
  Collective collective_;
  Progress::Clock::time_point issued_;
  c10::intrusive_ptr<c10d::Work> work_;
};

class Group {
 public:
  // Creates a group of one rank, rank 0.
  Group();
  // Creates a group of one rank, `rank`.
  explicit Group(std::string name, int64_t rank = 0);
  Group(std::string name, std::shared_ptr<Communicator> communicator);

  const std::string& name() const { return name_; }
  // Returns the communicator's name, which is unique in the world. Groups that share connections
  // have the same communicator name.
  const std::string& communicator_name() const;
  const std::vector<int64_t>& ranks() const;
  int64_t size() const { return static_cast<int64_t>(ranks().size()); }
  int64_t index() const;
  // Returns a group with another name and the connections of this group.
  Group renamed(std::string name) const;
  // Returns the communicator; null for a group of one rank.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  // Returns a device whose tensors the group's collectives accept: the host if the group supports
  // host tensors, otherwise the accelerator.
  c10::Device device() const;

  // Reduces a contiguous tensor over the group, in place.
  void all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::kSum) const;
  Pending all_reduce_async(at::Tensor tensor, ReduceOp op = ReduceOp::kSum) const;

  // Gathers `in` of all ranks into `out`, in index order. `out` has size() times as many elements
  // as `in`; both tensors are contiguous and have the same dtype. `in` may be this rank's part of
  // `out`.
  void all_gather(at::Tensor out, at::Tensor in) const;
  Pending all_gather_async(at::Tensor out, at::Tensor in) const;

  // Sums `in` over the ranks, and writes the part with number index() of the sum to `out`. `in`
  // consists of size() parts, each with as many elements as `out`. On the host, the ranks' values
  // are added in a fixed order, so the sum is bitwise reproducible.
  void reduce_scatter(at::Tensor out, at::Tensor in) const;
  Pending reduce_scatter_async(at::Tensor out, at::Tensor in) const;

  // Sends in_rows[i] rows of `in` (parts along dim 0) to index i, and receives out_rows[i] rows of
  // `out` from index i, both in index order. out_rows[i] must equal in_rows[index()] of the rank
  // with index i. Both tensors must be contiguous and have the same dtype and row size. Numbers of
  // rows may be 0.
  void all_to_all(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                  const std::vector<int64_t>& in_rows) const;
  Pending all_to_all_async(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                           const std::vector<int64_t>& in_rows) const;

  // Ring shift: sends `in` to index() + shift and receives `out` from index() - shift, both modulo
  // size(). Both tensors are contiguous, and have the same number of elements on all ranks.
  void rotate(at::Tensor out, at::Tensor in, int64_t shift = 1) const;
  Pending rotate_async(at::Tensor out, at::Tensor in, int64_t shift = 1) const;

  // Copies the tensor of index `root` to all ranks, in place.
  void broadcast(at::Tensor tensor, int64_t root = 0) const;
  // Returns the texts (or bytes) of all ranks, in index order.
  std::vector<std::string> all_gather_text(const std::string& text) const;
  // Returns the text (or bytes) of index `root`.
  std::string broadcast_text(const std::string& text, int64_t root = 0) const;
  void barrier() const;
  // Runs a barrier in which index 0 reports the missing ranks. Requires a host engine.
  void monitored_barrier(std::chrono::milliseconds timeout) const;

  // Returns a tensor of `numel` elements on the group's device, or on another device if `options`
  // names one. In a group created with GroupOptions::user_buffers, GPU memory is registered with
  // the communicator if NCCL and the GPU support registration.
  at::Tensor allocate(int64_t numel, const at::TensorOptions& options) const;
  // Ends collectives in progress: ranks that wait for them get an error. The group cannot be used
  // afterwards.
  void abort() const;

 private:
  friend class Channel;

  // Whether the caller waits for the collective immediately.
  enum class Waits : uint8_t { kNow, kLater };
  // Returns the value for c10d's asyncOp: false for a collective of host tensors for which the
  // caller waits immediately. The host engine may run this collective on the calling thread.
  static bool is_asynchronous(const at::Tensor& tensor, Waits waits) {
    return waits == Waits::kLater || !tensor.is_cpu();
  }
  Pending begin_all_reduce(at::Tensor tensor, ReduceOp op, Waits waits) const;
  Pending begin_all_gather(at::Tensor out, at::Tensor in, Waits waits) const;
  Pending begin_reduce_scatter(at::Tensor out, at::Tensor in, Waits waits) const;
  Pending begin_all_to_all(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                           const std::vector<int64_t>& in_rows, Waits waits) const;

  Collective next(const char* op) const;
  c10::intrusive_ptr<c10d::Backend> backend(const at::Tensor& tensor) const;
  void tell(const Collective& collective, std::string_view op, const at::Tensor& tensor) const;
  Pending issue(const char* op, const at::Tensor& tensor,
                const std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>& call) const;

  std::string name_;
  std::shared_ptr<Communicator> communicator_;
  std::vector<int64_t> alone_;  // ranks of a group of one rank, which has no communicator
};

}  // namespace am::runtime
