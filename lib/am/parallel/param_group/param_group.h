// One FSDP unit's parameters: the flat shard that this rank stores, and the full tensors that exist
// only while they are needed.
//
// The decomposition is PyTorch's: a group's parameters travel in one all-gather and one
// reduce-scatter (gradient_reducer.h). HSDP adds an all-reduce over dp_replicate. A shard group of
// one rank gathers nothing: with a replicate group of all data-parallel ranks, that is DDP, and
// what FSDP ignores. Frozen parameters are gathered with the others and lie behind them, so that
// what is reduced and updated is one piece.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/mesh/shard.h"
#include "am/nn/layers.h"
#include "am/parallel/param_group/flat_layout.h"
#include "am/parallel/param_group/freed_storage.h"
#include "am/parallel/param_group/gradient_reducer.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// PyTorch's MixedPrecisionPolicy with dtypes resolved; absent means the storage dtype.
struct Precision {
  std::optional<at::ScalarType> param_dtype;   // of gathered parameters and of the computation
  std::optional<at::ScalarType> reduce_dtype;  // of the gradient reduction
};

// PyTorch's CPUOffloadPolicy: shards, their gradients and so the optimizer are in host memory.
struct Offload {
  bool pin_memory = true;  // where a GPU computes
};

struct ParamGroupOptions {
  at::ScalarType storage_dtype = at::kFloat;
  Precision precision;
  std::optional<Offload> offload;
  // reshard_after_forward = N: the group that the gathered parameters are cut over between forward
  // and backward, blocks of the shard group; null: they go back to their shards.
  const runtime::Group* post_forward_group = nullptr;
  BufferPool* pool = nullptr;  // where full tensors and buffers come from; null: the allocator
  // Each gradient that autograd has whole is looked at before it is reduced: backward throws
  // Error(kNumeric), which names parameter and rank, where one is not finite.
  bool report_nan = false;
};

// What this rank stores of one parameter, or one box of it where it is several: a matrix that is
// cut slice by slice. Padding is left out.
struct OwnedParameter {
  std::string name;
  Shape shape;                // global
  mesh::Box box;              // this rank's part of it
  at::Tensor value;           // [box.shape], a view of the group's flat shard
  bool first_replica = true;  // exactly one rank among those that store the same box says true
  // The ranks that store the same box: how many, which one this is, and a name that boxes of the
  // same ranks share. A stage's copy of a tied weight counts for none: 0.
  int64_t replicas = 1;
  int64_t replica = 0;
  std::string holders;
  bool trainable = true;
  size_t piece = 0;   // of ParamGroup::pieces()
  size_t number = 0;  // among the piece's boxes
};

class ParamGroup {
 public:
  struct Member {
    nn::ParameterPtr parameter;
    const planner::ParameterLayout* layout = nullptr;
  };
  // `mesh` and what `groups` and the options point to must outlive the group. Storage starts as
  // zeros.
  ParamGroup(std::string name, std::vector<Member> members, const runtime::DeviceMesh& mesh,
             const ReductionGroups& groups, const ParamGroupOptions& options);
  ~ParamGroup();
  ParamGroup(const ParamGroup&) = delete;
  ParamGroup& operator=(const ParamGroup&) = delete;

  const std::string& name() const { return name_; }
  // Those that train first.
  const std::vector<OwnedParameter>& owned() const { return owned_; }
  // All that this rank stores, padding included; of it what is trained; and the gradient of that,
  // undefined before the first one.
  const at::Tensor& flat() const { return flat_; }
  at::Tensor trained() const { return flat_.narrow(0, 0, trained_.flat_numel()); }
  const at::Tensor& flat_grad() const { return gradients_.flat(); }
  // Where the parameters lie in flat(), each one piece, and what they are cut over.
  const FlatLayout& pieces() const { return pieces_; }
  const runtime::Group& shard_group() const { return shard_group_; }
  // [box.shape] view of owned()[i]'s part in any tensor laid out like flat(), or where it trains
  // like trained(): its gradient, an optimizer moment.
  at::Tensor view_in(const at::Tensor& flat, size_t i) const { return view_in(flat, owned_[i]); }
  at::Tensor view_in(const at::Tensor& flat, const OwnedParameter& owned) const {
    return pieces_.view(flat, owned.piece, pieces_[owned.piece].boxes[owned.number]);
  }

  // Full tensors: begin gathering, wait for them, free them. unshard() = begin + wait; all are
  // idempotent. reshard() ends and drops a gathering that nobody waited for.
  void begin_unshard();
  void unshard();
  void reshard();
  // As reshard; with a post-forward group this rank keeps its part for it until the next reshard(),
  // and the next unshard gathers in that group.
  void reshard_after_forward();
  bool is_unsharded() const { return unsharded_; }
  // Bytes of the full tensors while they exist in storage of their own.
  int64_t unsharded_bytes() const;

  // Gradients leave autograd for here as they are made.
  GradientReducer& gradients() { return gradients_; }
  void zero_grad();

 private:
  class TakeGradient;

  void make_full_tensors(const std::vector<Member>& members, int64_t rank);
  void copy_out(const at::Tensor& ranks);
  void copy_out_even(const at::Tensor& ranks);
  void end_gather();
  void free_gathered();

  std::string name_;
  const runtime::Group& shard_group_;
  FlatLayout pieces_;
  FlatLayout trained_;         // the first ones of pieces_
  at::TensorOptions compute_;  // dtype and device of the full tensors
  ParamGroupOptions options_;
  bool aliased_;  // full tensors are views of the flat shard: nothing to gather, nothing to cast

  std::vector<OwnedParameter> owned_;
  at::Tensor flat_;
  GradientReducer gradients_;
  std::vector<at::Tensor> full_;  // leaves that the layers compute with
  bool unsharded_ = false;

  runtime::Pending gathering_;
  at::Tensor gather_input_;
  at::Tensor gather_output_;  // [ranks, flat]
  at::Tensor kept_;           // this rank's rows of it in the post-forward group
};

}  // namespace am::parallel
