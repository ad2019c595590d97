// c10d's Gloo group with a different reduce-scatter, and with messages that abort() ends.
//
// Note [Reduce-scatter on Gloo]: GlooGroup exchanges the parts by an all-to-all, and each rank sums
// the parts that it receives. Compared with c10d's reduce-scatter, this method sends as many bytes,
// is 1.4 to 4 times faster over loopback, and adds in a fixed order, but needs a buffer of the
// input's size. The thread that waits for the work computes the sum.
#pragma once

#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace am::runtime {

class GlooGroup : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // Supports only sums; both tensors must be contiguous.
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& options) override;

  // The thread that waits for the returned work releases both tensors. In c10d's implementation,
  // Gloo's worker thread may keep the tensors for longer.
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& out, at::Tensor& in,
                                               std::vector<int64_t>& out_rows,
                                               std::vector<int64_t>& in_rows,
                                               const c10d::AllToAllOptions& options) override;

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  // Ends pending and future messages with an error. c10d's implementation does nothing.
  void abort() override;

 private:
  c10::intrusive_ptr<c10d::Work> message(c10::intrusive_ptr<c10d::Work> work);

  std::mutex mutex_;
  bool aborted_ = false;
  // Messages in progress. References to ended messages remain until the next message is issued.
  std::vector<c10::weak_intrusive_ptr<c10d::Work>> messages_;
};

}  // namespace am::runtime
