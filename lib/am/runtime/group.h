// A process group as a value: which ranks, which of them this is, and the collectives between them.
//
// Collectives run on c10d: Gloo for host tensors (through shared memory where all ranks are on one
// host), NCCL or Gloo for an accelerator's; the tensor decides. A group of one rank communicates
// nothing and needs no backend, so callers never ask for the size first.
// Every failure is a CollectiveError (an am::Error of kind kPeer) that names the collective, the
// group and, where a watchdog runs, the rank that did not arrive.
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

// PyTorch's ReduceOp. kAvg of integers is not defined.
enum class ReduceOp { kSum, kAvg, kProduct, kMin, kMax, kBand, kBor, kBxor };

// What the groups of one world share: the progress record, and whoever can say why a collective
// does not end.
struct GroupContext {
  Progress progress;
  // Set by the watchdog. `timed_out` as in CollectiveError.
  std::function<Stall(const Collective& collective, bool timed_out)> explain;
  // Told of every collective that a group issues, where somebody wants to know. `bytes` of the
  // whole message: the tensor that is reduced or sent, all parts of a gather or a scatter.
  std::function<void(const Collective& collective, int64_t bytes)> on_collective;
};

// The connections between the ranks of a group; groups of the same ranks share one.
struct Communicator {
  std::shared_ptr<const CommunicatorId> id;
  int64_t index = 0;                              // of this rank in id->ranks
  c10::intrusive_ptr<c10d::Backend> cpu;          // null: no host tensors
  c10::intrusive_ptr<c10d::Backend> accelerator;  // null: no tensors of an accelerator
  std::shared_ptr<Engine> accelerator_engine;     // that made `accelerator`
  c10::Device device = c10::Device(c10::kCPU);    // for messages of the group itself
  bool user_buffers = false;                      // see GroupOptions
  std::shared_ptr<GroupContext> context;
  std::atomic<uint64_t> sequence{0};
};

// A collective under way. Must be waited for before its tensors are touched; wait() is idempotent.
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
  // A group of one.
  Group();
  // `rank`: the only member.
  explicit Group(std::string name, int64_t rank = 0);
  Group(std::string name, std::shared_ptr<Communicator> communicator);

  const std::string& name() const { return name_; }
  // Of its connections: unique in the world, the same for all groups that share them.
  const std::string& communicator_name() const;
  const std::vector<int64_t>& ranks() const;
  int64_t size() const { return static_cast<int64_t>(ranks().size()); }
  int64_t index() const;
  // The same connections under another name.
  Group renamed(std::string name) const;
  // Null for a group of one.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  // Where tensors may live that any collective of the group takes: the host where it can.
  c10::Device device() const;

  // In place on a contiguous tensor.
  void all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::kSum) const;
  Pending all_reduce_async(at::Tensor tensor, ReduceOp op = ReduceOp::kSum) const;

  // `out` holds size() times `in`'s elements, in index order; both contiguous, of one dtype. `in`
  // may be this rank's own part of `out`.
  void all_gather(at::Tensor out, at::Tensor in) const;
  Pending all_gather_async(at::Tensor out, at::Tensor in) const;

  // `in` holds size() parts of `out`'s elements; `out` receives the sum of every rank's part number
  // index(). On the host the sum runs in index order, so that it is the same bits every time.
  void reduce_scatter(at::Tensor out, at::Tensor in) const;
  Pending reduce_scatter_async(at::Tensor out, at::Tensor in) const;

  // The rows of `in` (dim 0) go to the ranks in index order, in_rows[i] of them to index i, and
  // out_rows[i] rows of `out` come from index i: what that rank's in_rows says of this one. Both
  // contiguous, of one dtype, with rows of one size; any number may be zero.
  void all_to_all(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                  const std::vector<int64_t>& in_rows) const;
  Pending all_to_all_async(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                           const std::vector<int64_t>& in_rows) const;

  // Round the ring: `in` goes to index() + shift, and `out` is what index() - shift gave. Both
  // contiguous, of one size on all ranks.
  void rotate(at::Tensor out, at::Tensor in, int64_t shift = 1) const;
  Pending rotate_async(at::Tensor out, at::Tensor in, int64_t shift = 1) const;

  // From the group's rank `root` (an index) to all.
  void broadcast(at::Tensor tensor, int64_t root = 0) const;
  // Every rank's text (or bytes), in index order.
  std::vector<std::string> all_gather_text(const std::string& text) const;
  // The text (or bytes) of `root` (an index).
  std::string broadcast_text(const std::string& text, int64_t root = 0) const;
  void barrier() const;
  // A barrier in which index 0 names the ranks that are missing. Host engines only.
  void monitored_barrier(std::chrono::milliseconds timeout) const;

  // `numel` elements on the group's device (or that of `options`). In a group made with
  // GroupOptions::user_buffers, GPU memory is registered with the communicator where NCCL and the
  // GPU offer that.
  at::Tensor allocate(int64_t numel, const at::TensorOptions& options) const;
  // Ends what is under way: waiting ranks get an error. The group is of no further use.
  void abort() const;

 private:
  friend class Channel;

  // Whether who issues a collective waits for it at once.
  enum class Waits : uint8_t { kNow, kLater };
  // For c10d. Host engines may leave such a collective to the thread that waits; those of an
  // accelerator's tensors go to their own streams or threads.
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
  std::vector<int64_t> alone_;  // the rank of a group of one
};

}  // namespace am::runtime
