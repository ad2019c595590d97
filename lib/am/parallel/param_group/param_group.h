// One FSDP unit's parameters: the flat shard that this rank stores, and the full tensors that exist
// only while they are needed.
//
// The decomposition is PyTorch's: a group's parameters travel in one all-gather and one
// reduce-scatter (gradient_reducer.h). HSDP adds an all-reduce over dp_replicate. A shard group of
// one rank gathers nothing: with a replicate group of all data-parallel ranks, it serves DDP, and
// the parameters that FSDP ignores. Frozen parameters are gathered with the others and lie behind
// them, so that the trainable ones are one contiguous range.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/layout/layout.h"
#include "am/mesh/shard.h"
#include "am/nn/layers.h"
#include "am/parallel/param_group/flat_layout.h"
#include "am/parallel/param_group/freed_storage.h"
#include "am/parallel/param_group/gradient_reducer.h"
#include "am/runtime/device_mesh.h"
#include "am/tensor/side_stream.h"

namespace am::parallel {

// PyTorch's MixedPrecisionPolicy with dtypes resolved; absent means the storage dtype.
struct Precision {
  std::optional<at::ScalarType> param_dtype;   // of gathered parameters and of the computation
  std::optional<at::ScalarType> reduce_dtype;  // of the gradient reduction
};

// PyTorch's CPUOffloadPolicy: shards, their gradients and the optimizer state are in host memory.
struct Offload {
  bool pin_memory = true;  // where a GPU computes
};

struct ParamGroupOptions {
  at::ScalarType storage_dtype = at::kFloat;
  Precision precision;
  std::optional<Offload> offload;
  // reshard_after_forward = N: group of N ranks, a block of the shard group, over which the
  // gathered parameters are sharded between forward and backward; null: the shard group.
  const runtime::Group* post_forward_group = nullptr;
  BufferPool* pool = nullptr;  // where full tensors and buffers come from; null: the allocator
  // Streams of all-gathers and of gradient reductions; null: the thread's current stream.
  tensor::SideStream* gathers = nullptr;
  tensor::SideStream* reductions = nullptr;
  // Checks each whole gradient before it is reduced: backward throws Error(kNumeric), which names
  // parameter and rank, if one is not finite.
  bool report_nan = false;
};

// One box of a parameter that this rank stores, without padding. A rank stores several boxes of a
// matrix that is sharded slice by slice.
struct LocalParameter {
  std::string name;
  Shape shape;                // global
  mesh::Box box;              // this rank's part of it
  at::Tensor value;           // [box.shape], a view of the group's flat shard
  bool first_replica = true;  // true on exactly one of the ranks that store the same box
  // Ranks that store the same box: their number, this rank's index among them, and a name that is
  // equal for boxes with equal ranks. `replicas` is 0 for a stage's copy of a tied weight.
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
    const layout::ParameterLayout* layout = nullptr;
  };
  // `mesh` and the objects that `groups` and the options point to must outlive the group. Storage
  // starts as zeros.
  ParamGroup(std::string name, std::vector<Member> members, const runtime::DeviceMesh& mesh,
             const ReductionGroups& groups, const ParamGroupOptions& options);
  ~ParamGroup();
  ParamGroup(const ParamGroup&) = delete;
  ParamGroup& operator=(const ParamGroup&) = delete;

  const std::string& name() const { return name_; }
  // Trainable ones first.
  const std::vector<LocalParameter>& owned() const { return owned_; }
  // flat(): this rank's shards, padding included. trained(): the trainable part of it. flat_grad():
  // the gradient of trained(), undefined before the first one.
  const at::Tensor& flat() const { return flat_; }
  at::Tensor trained() const { return flat_.narrow(0, 0, trained_.flat_numel()); }
  const at::Tensor& flat_grad() const { return gradients_.flat(); }
  // Places of the parameters in flat(), one piece per parameter, and the ranks they are sharded
  // over.
  const FlatLayout& pieces() const { return pieces_; }
  const runtime::Group& shard_group() const { return shard_group_; }
  // [box.shape] view of owned()[i]'s part in a tensor laid out like flat() or, if trainable, like
  // trained(): its gradient, an optimizer moment.
  at::Tensor view_in(const at::Tensor& flat, size_t i) const { return view_in(flat, owned_[i]); }
  at::Tensor view_in(const at::Tensor& flat, const LocalParameter& owned) const {
    return pieces_.view(flat, owned.piece, pieces_[owned.piece].boxes[owned.number]);
  }

  // Full tensors: begin gathering, wait for them, free them. unshard() = begin + wait; all are
  // idempotent. reshard() completes and drops a gathering that nobody waited for.
  void begin_unshard();
  // begin_unshard(), but the gather stream does not wait for the current stream. The caller must
  // have made it wait since the values last changed.
  void prefetch();
  void unshard();
  void reshard();
  // reshard(); with a post-forward group, this rank keeps its part for that group until the next
  // reshard(), and the next unshard gathers in that group.
  void reshard_after_forward();
  bool is_unsharded() const { return unsharded_; }
  // Bytes that the full tensors occupy now; 0 while they are freed, or if they are views of flat().
  int64_t unsharded_bytes() const;

  // Receives each gradient as soon as autograd has made it.
  GradientReducer& gradients() { return gradients_; }
  void zero_grad();

 private:
  class TakeGradient;

  void make_full_tensors(const std::vector<Member>& members, int64_t rank);
  // Whether full parameters are only copied from host memory, without a collective.
  bool is_copied_in() const;
  void gather();
  void copy_in();
  void fill_full_tensors();
  void copy_out(const at::Tensor& ranks);
  void copy_out_even(const at::Tensor& ranks);
  void end_gather();
  void drop_gathering();
  void free_gathered();

  std::string name_;
  const runtime::Group& shard_group_;
  FlatLayout pieces_;
  FlatLayout trained_;         // the trainable pieces, which are the first ones of pieces_
  at::TensorOptions compute_;  // dtype and device of the full tensors
  ParamGroupOptions options_;
  bool aliased_;  // full tensors are views of the flat shard: nothing to gather, nothing to cast

  std::vector<LocalParameter> owned_;
  at::Tensor flat_;
  GradientReducer gradients_;
  std::vector<at::Tensor> full_;  // leaves that the layers compute with
  bool unsharded_ = false;

  bool begun_ = false;  // a gathering, or a copy from the host
  runtime::Pending gathering_;
  at::Tensor gather_input_;
  at::Tensor gather_output_;  // [ranks, flat]
  at::Tensor kept_;           // this rank's rows of it in the post-forward group
};

}  // namespace am::parallel
