// Reduces the gradients of one parameter group: from the full gradients that autograd computes to
// the flat gradient, this rank's shard, which the optimizer reads.
//
// As soon as autograd has computed a gradient, the gradient is packed, that is, copied to the
// buffer that the reduction sends, and then freed. A unit's backward therefore holds only one full
// gradient at a time, besides the buffer. The buffer has the shape [ranks, flat]: `flat` elements
// for each of the `ranks` ranks of the shard group. Without gradient sync the buffer stays, and
// later backward passes add to it. The buffer is reduce-scattered over the shard group.
// The result is all-reduced over the replicate group, as in PyTorch's HSDP. Last, gradients that
// are partial sums on tp ranks are summed over tp. If the shard group has one rank (for example a
// DDP bucket), there is no reduce-scatter. The buffer of the first reduction then is the flat
// gradient itself, if both have the same dtype and device.
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

// Groups of a reduction. `shard`: ranks over which parameters are sharded. `replicate`: ranks that
// store equal shards. `tp`: ranks over which gradients that are partial sums are summed.
// `key_head`: tp ranks that share a key head; null: no key head is shared.
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
    at::TensorOptions storage;   // dtype and device of the flat gradient
    at::TensorOptions compute;   // the device on which gradients are reduced
    BufferPool* pool = nullptr;  // source of buffers; null: the allocator
    bool offloaded = false;      // whether the flat gradient is in host memory while a GPU computes
    // Stream on which packed gradients are reduced; null: the thread's current stream. After
    // finish_reduce(), the stream that reads flat() must wait for this stream; if the flat gradient
    // is offloaded, the host must wait instead.
    tensor::SideStream* stream = nullptr;
  };

  // `pieces` and the groups must outlive the reducer.
  GradientReducer(const FlatLayout& pieces, const ReductionGroups& groups, const Options& options);

  // Adds the full gradient of parameter `i` of `pieces` to the gradients that are not reduced yet.
  void take(size_t i, const at::Tensor& gradient);
  // Registers a function that is called as soon as the gradients of all pieces have arrived since
  // the last begin_reduce() or keep().
  void on_complete(std::function<void()> complete) { complete_ = std::move(complete); }
  // Whether any gradient has arrived since the last begin_reduce() or keep().
  bool any_new() const { return new_ > 0; }
  // Keeps the gradients that have arrived, so that a later reduction includes them.
  void keep() { new_ = 0; }

  // Reduce all gradients that have arrived, in three steps that overlap with computation.
  // begin_reduce() starts the reduce-scatter (for a shard group of one rank, the all-reduce). It
  // returns false if there are no gradients to reduce, or if a reduction is already in progress.
  // advance_reduce() waits for the reduce-scatter and starts the all-reduce over the replicas.
  // finish_reduce() runs advance_reduce() if that has not run yet, waits for the all-reduce, sums
  // over tp where necessary, and adds the result to flat(). advance_reduce() and finish_reduce() do
  // nothing if no reduction is in progress.
  bool begin_reduce();
  void advance_reduce();
  void finish_reduce();
  // Whether a collective is in flight.
  bool in_flight() const { return pending_.active(); }

  // Sets the divisor of the gradients' sums, as PyTorch's set_gradient_divide_factor. If the
  // reduction runs in float16, gradients are divided partly before and partly after the reduction,
  // against overflow and underflow. Absent: sums are not divided.
  void set_divide_factor(std::optional<double> factor) { divide_factor_ = factor; }

  // Returns the flat gradient: the reduced gradients, laid out like the pieces, with zeros as
  // padding. Undefined before the first reduction (before the first gradient, if the buffer is the
  // flat gradient), and again after zero(), except that an offloaded flat gradient keeps its
  // memory. Without pieces, the flat gradient is always an empty tensor.
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
  // Returns the divisors before and after the reduction.
  std::pair<double, double> divisors() const;

  const FlatLayout& pieces_;
  const runtime::Group& shard_group_;
  const runtime::Group& replicate_group_;
  const runtime::Group& tp_group_;
  const runtime::Group* key_head_group_;
  Options options_;
  // Whether a reduction can write its result directly into the flat gradient, because the result
  // has the flat gradient's dtype and device.
  bool direct_;
  std::optional<double> divide_factor_;

  at::Tensor flat_;
  bool flat_valid_ = false;    // whether flat_ contains a reduced gradient
  at::Tensor buffer_;          // packed gradients, [ranks, flat], in the reduce dtype
  std::vector<bool> arrived_;  // by piece: whether its gradient is in the buffer
  size_t new_ = 0;             // number of gradients since the last begin_reduce() or keep()
  std::function<void()> complete_;

  Stage stage_ = Stage::kIdle;
  runtime::Pending pending_;
  at::Tensor reduced_;  // result of the reduction in progress, [flat]
};

}  // namespace am::parallel
