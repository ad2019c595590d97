// The gradients of one unit's parameters: from autograd, which makes them whole, to the flat shard
// that the optimizer reads.
//
// Each gradient is packed the moment autograd has it, and freed: a unit's backward holds one whole
// gradient at a time, and the buffer [ranks, flat] that the reduction sends. Without sync the
// buffer stays and later backward passes add to it. It is reduce-scattered over the shard group,
// then all-reduced over the replicate group, as in PyTorch's HSDP, and last what tp ranks have
// parts of is summed over them: by then it is this rank's shard alone. With a shard group of one
// rank the buffer is the flat gradient itself, where dtype and device allow, and the all-reduce is
// all there is: a DDP bucket whose gradients are views of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "am/parallel/param_group/flat_layout.h"
#include "am/parallel/param_group/freed_storage.h"
#include "am/runtime/group.h"

namespace am::parallel {

// What parameters are cut over, what holds copies of their shards, tp, and its blocks of ranks that
// share a key head (null: each has its own).
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
  };

  // `pieces` and the groups must outlive this.
  GradientReducer(const FlatLayout& pieces, const ReductionGroups& groups, const Options& options);

  // The whole gradient of piece `i`, which joins what came before it since the last reduction.
  void take(size_t i, const at::Tensor& gradient);
  // Told when every piece's has come since begin_reduce or keep.
  void on_complete(std::function<void()> complete) { complete_ = std::move(complete); }
  // Whether any came since then.
  bool any_new() const { return new_ > 0; }
  // What came stays until a later reduction.
  void keep() { new_ = 0; }

  // The reduction of all that came, in three steps so that others compute meanwhile: begin sends,
  // advance waits for the shards and goes on to the replicas, finish waits and adds to flat(). Each
  // does what those before it did not. begin says whether there was anything.
  bool begin_reduce();
  void advance_reduce();
  void finish_reduce();
  // Whether a message is under way.
  bool in_flight() const { return pending_.active(); }

  // PyTorch's set_gradient_divide_factor: sums are divided by it. In float16 one part before the
  // reduction and one after, against overflow and underflow. Absent: sums.
  void set_divide_factor(std::optional<double> factor) { divide_factor_ = factor; }

  // Laid out as the pieces are, padding zero; undefined before anything came, if anything can.
  const at::Tensor& flat() const { return flat_; }
  // The next gradients replace what is in flat().
  void zero();

 private:
  enum class Stage { kIdle, kScattering, kAllReducing };

  void make_flat();
  void make_buffer();
  void release_buffer();
  void zero_missing();
  void sum_over_tp();
  void sum_over(const runtime::Group& group);
  // Before and after the reduction.
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
