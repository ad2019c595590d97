// Reduces the gradients of one unit's parameters: from whole gradients, as autograd makes them, to
// the flat shard that the optimizer reads.
//
// Each gradient is packed and freed as soon as autograd has it: a unit's backward holds one whole
// gradient at a time, and the buffer [ranks, flat] that the reduction sends. Without sync the
// buffer stays and later backward passes add to it. It is reduce-scattered over the shard group,
// then all-reduced over the replicate group, as in PyTorch's HSDP; last, this rank's shard of
// gradients that are partial sums on tp ranks is summed over tp. With a shard group of one rank the
// buffer is the flat gradient itself, if dtype and device allow, and only the all-reduce remains:
// a DDP bucket whose gradients are views of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "am/parallel/param_group/flat_layout.h"
#include "am/parallel/param_group/freed_storage.h"
#include "am/runtime/group.h"
#include "am/tensor/side_stream.h"

namespace am::parallel {

// Groups of a reduction. `shard`: ranks over which parameters are sharded; `replicate`: holders of
// the same shards; `key_head`: tp ranks that share a key head (null: each has its own).
struct ReductionGroups {
  const runtime::Group* shard;
  const runtime::Group* replicate;
  const runtime::Group* tp;
  const runtime::Group* key_head = nullptr;
};

class GradientReducer {
 public:
  struct Options {
    at::ScalarType reduce_dtype = at::kFloat;
    at::TensorOptions storage;   // of the flat gradient
    at::TensorOptions compute;   // its device is the one that reduces
    BufferPool* pool = nullptr;  // where buffers come from; null: the allocator
    bool offloaded = false;      // the flat gradient is not on the device that computes
    // Stream on which packed gradients are reduced; null: the thread's current stream. With a
    // stream, flat() is complete after the last finish_reduce only for readers that wait for it:
    // another stream, or the host if offloaded.
    tensor::SideStream* stream = nullptr;
  };

  // `pieces` and the groups must outlive this.
  GradientReducer(const FlatLayout& pieces, const ReductionGroups& groups, const Options& options);

  // Adds the whole gradient of piece `i` to those that arrived since the last reduction.
  void take(size_t i, const at::Tensor& gradient);
  // `complete` is called when every piece's gradient has arrived since begin_reduce or keep.
  void on_complete(std::function<void()> complete) { complete_ = std::move(complete); }
  // Whether any gradient arrived since begin_reduce or keep.
  bool any_new() const { return new_ > 0; }
  // Keeps the gradients that arrived for a later reduction.
  void keep() { new_ = 0; }

  // Reduce all gradients that arrived, in three steps that overlap with computation: begin starts
  // the reduce-scatter, advance waits for it and starts the all-reduce over the replicas, finish
  // waits and adds to flat(). Each first runs the steps that are still to be done. begin returns
  // whether there was anything to reduce.
  bool begin_reduce();
  void advance_reduce();
  void finish_reduce();
  // Whether a collective is in flight.
  bool in_flight() const { return pending_.active(); }

  // PyTorch's set_gradient_divide_factor: sums are divided by it, in float16 partly before and
  // partly after the reduction, against overflow and underflow. Absent: plain sums.
  void set_divide_factor(std::optional<double> factor) { divide_factor_ = factor; }

  // The reduced gradient, laid out like the pieces, padding zero. Undefined before the first
  // reduction and after zero(), unless there are no pieces or the gradient is offloaded.
  const at::Tensor& flat() const { return flat_; }
  // Discards the gradients and frees flat(), as PyTorch's zero_grad(set_to_none=True). An offloaded
  // flat() keeps its memory; the next gradients replace its contents.
  void zero();

 private:
  enum class Stage { kIdle, kScattering, kAllReducing };

  void make_flat();
  void make_buffer();
  void release_buffer();
  void zero_missing();
  void sum_over_tp();
  void add_to_flat();
  void sum_over(const runtime::Group& group);
  // Divisors before and after the reduction.
  std::pair<double, double> divisors() const;

  const FlatLayout& pieces_;
  const runtime::Group& shard_group_;
  const runtime::Group& replicate_group_;
  const runtime::Group& tp_group_;
  const runtime::Group* key_head_group_;
  Options options_;
  bool direct_;  // a reduction can write into the flat gradient: same dtype, same device
  std::optional<double> divide_factor_;

  at::Tensor flat_;
  bool flat_valid_ = false;
  at::Tensor buffer_;          // [ranks, flat] in the reduce dtype
  std::vector<bool> arrived_;  // pieces whose gradient is in the buffer
  size_t new_ = 0;
  std::function<void()> complete_;

  Stage stage_ = Stage::kIdle;
  runtime::Pending pending_;
  at::Tensor reduced_;  // [flat]
};

}  // namespace am::parallel
