// A parameter group: the parameters of one FSDP unit, of a part of a unit, or of one bucket. A
// group consists of the flat shard that this rank stores, and of the full tensors, whose memory
// exists only while they are needed.
//
// As in PyTorch's FSDP2, one all-gather gathers the parameters of a group, and one reduce-scatter
// (gradient_reducer.h) reduces their gradients. HSDP adds an all-reduce over dp_replicate. DDP, and
// the parameters that FSDP ignores, have a shard group of one rank, which gathers nothing, and a
// replicate group of all data-parallel ranks. Frozen parameters are gathered together with
// trainable parameters and are stored after them, so that the trainable parameters are one
// contiguous range. Quantized parameters, all frozen, have a group of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
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

// PyTorch's MixedPrecisionPolicy with parsed dtypes. An absent param_dtype means the storage dtype,
// an absent reduce_dtype the param_dtype.
struct Precision {
  std::optional<at::ScalarType> param_dtype;  // dtype of gathered parameters and of the computation
  std::optional<at::ScalarType> reduce_dtype;  // dtype of the gradient reduction
};

// PyTorch's CPUOffloadPolicy: shards, their gradients and the optimizer state are in host memory.
struct Offload {
  bool pin_memory = true;  // whether the host memory is pinned, if a GPU computes
};

// Name of the root unit in traces and in messages. ParamGroup::name() of the root unit is empty.
inline constexpr const char* kRootUnit = "the root unit";

struct ParamGroupOptions {
  at::ScalarType storage_dtype = at::kFloat;
  Precision precision;
  std::optional<Offload> offload;
  // Group of N consecutive ranks of the shard group, over which the parameters are sharded between
  // forward and backward (reshard_after_forward = N); null: the whole shard group.
  const runtime::Group* post_forward_group = nullptr;
  BufferPool* pool = nullptr;  // source of full tensors' memory and of buffers; null: the allocator
  // Streams of all-gathers and of gradient reductions; null: the thread's current stream.
  tensor::SideStream* gathers = nullptr;
  tensor::SideStream* reductions = nullptr;
  // Whether each full gradient is checked before it is reduced. If one is not finite, backward
  // throws Error(kNumeric), which names parameter and rank.
  bool report_nan = false;
  // Whether the group's parameters, all frozen, are stored in NF4 (am/tensor/nf4.h).
  bool quantized = false;
};

// A box (rectangular block) of a parameter that this rank stores, without padding. A rank stores
// several boxes of a fused matrix (such as QKV) if tp cuts each part of the matrix separately.
struct LocalParameter {
  std::string name;
  Shape shape;    // global shape of the parameter
  mesh::Box box;  // this rank's part of the parameter
  // [box.shape], a view of the group's flat shard. Undefined if the group is quantized: see
  // ParamGroup::value_of() and change().
  at::Tensor value;
  // True on exactly one of the ranks that store the same box; false on all of these ranks for the
  // last stage's copy of a tied weight.
  bool first_replica = true;
  // The ranks that store the same box: `replicas` is their number (0 for the last stage's copy of a
  // tied weight), `replica` is this rank's index among them, and `holders` is a name for this set
  // of ranks.
  int64_t replicas = 1;
  int64_t replica = 0;
  std::string holders;
  bool trainable = true;
  size_t piece = 0;   // index of the parameter in ParamGroup::pieces()
  size_t number = 0;  // index of the box among the boxes of its piece
};

class ParamGroup {
 public:
  struct Member {
    nn::ParameterPtr parameter;
    const layout::ParameterLayout* layout = nullptr;
  };
  // `mesh` and the objects that `groups` and the options point to must outlive the group. A
  // parameter without a value starts as zeros, and its value becomes the group's full tensor. A
  // parameter with a value belongs to a torch module and keeps this value. The module's tensor is
  // the full tensor while the group is gathered, and otherwise this rank's shard, as in PyTorch's
  // FSDP2.
  ParamGroup(std::string name, std::vector<Member> members, const runtime::DeviceMesh& mesh,
             const ReductionGroups& groups, const ParamGroupOptions& options);
  ~ParamGroup();
  ParamGroup(const ParamGroup&) = delete;
  ParamGroup& operator=(const ParamGroup&) = delete;

  const std::string& name() const { return name_; }
  // Returns the boxes that this rank stores, boxes of trainable parameters first.
  const std::vector<LocalParameter>& owned() const { return owned_; }
  bool quantized() const { return options_.quantized; }
  // Returns the dtype of the parameters' values.
  at::ScalarType storage_dtype() const { return options_.storage_dtype; }
  // Returns the values of a box [box.shape]: a view, or a dequantized copy.
  at::Tensor value_of(const LocalParameter& owned) const;
  // Returns the values of this rank's piece of a parameter [Piece::own_shape]: a view, or a
  // dequantized copy.
  at::Tensor value_of_piece(size_t piece) const;
  // Calls the function `change` with the values of owned.box as a tensor [box.shape], which the
  // function may change. Stores the changed values in the group.
  void change(const LocalParameter& owned, const std::function<void(at::Tensor&)>& change);
  // Returns a tensor whose values are finite if and only if all values of the group are finite:
  // flat() or, for a quantized group, the magnitude of each NF4 block.
  at::Tensor magnitudes() const;
  // flat() returns this rank's shards, padding included, or the bytes of quantized shards: the
  // codes of all parameters, then the magnitudes of all NF4 blocks. trained() returns the trainable
  // part of flat(). flat_grad() returns the gradient of trained(), which is undefined before the
  // first gradient.
  const at::Tensor& flat() const { return flat_; }
  at::Tensor trained() const { return flat_.narrow(0, 0, trained_.flat_numel()); }
  const at::Tensor& flat_grad() const { return gradients_.flat(); }
  // pieces() returns the positions of the parameters in flat(), one piece per parameter.
  // shard_group() returns the ranks over which the parameters are sharded.
  const FlatLayout& pieces() const { return pieces_; }
  const runtime::Group& shard_group() const { return shard_group_; }
  // Returns a view [box.shape] of the elements that belong to owned()[i] in a tensor laid out like
  // flat(). For a trainable parameter, the tensor may be laid out like trained(), for example its
  // gradient or an optimizer moment.
  at::Tensor view_in(const at::Tensor& flat, size_t i) const { return view_in(flat, owned_[i]); }
  at::Tensor view_in(const at::Tensor& flat, const LocalParameter& owned) const {
    return pieces_.view(flat, owned.piece, pieces_[owned.piece].boxes[owned.number]);
  }

  // begin_unshard() starts the gather of the full tensors. unshard() starts the gather if none is
  // in flight, and waits until the full tensors are gathered. reshard() frees them; if a gather is
  // in flight, reshard() completes and discards it. All three are idempotent.
  void begin_unshard();
  // Does the same as begin_unshard(), except that the gather stream waits for the current stream
  // only if the gather's buffers require it. The caller must have made the gather stream wait for
  // the last change of the parameters.
  void prefetch();
  void unshard();
  void reshard();
  // Frees the full tensors as reshard() does. With a post-forward group, this rank keeps its shard
  // over the post-forward group until the next reshard(), and the next unshard() gathers over the
  // post-forward group.
  void reshard_after_forward();
  bool is_unsharded() const { return unsharded_; }
  // Returns the number of bytes that the full tensors occupy now; 0 while they are freed, or if
  // they are views of flat().
  int64_t unsharded_bytes() const;

  // Returns the autograd leaf of owned()[i].
  const at::Tensor& leaf(size_t i) const { return leaves_[owned_[i].piece]; }
  // Returns the reducer, which receives each gradient as soon as autograd has computed it.
  GradientReducer& gradients() { return gradients_; }
  void zero_grad();

 private:
  class TakeGradient;

  void make_full_tensors(const std::vector<Member>& members, int64_t rank);
  // Makes the tensors of torch modules alias the full tensors if `full`, otherwise this rank's
  // shards.
  void show_full(bool full);
  // Whether the full tensors are only copied from host memory, without a collective.
  bool is_copied_in() const;
  void gather();
  void copy_in();
  void fill_full_tensors();
  void copy_out(const at::Tensor& ranks);
  void copy_out_even(const at::Tensor& ranks);
  void dequantize(const at::Tensor& ranks);
  // Codes and magnitudes of one piece, [ranks, ..], as views of the bytes of all ranks,
  // [ranks, bytes].
  struct Quantized {
    at::Tensor codes, absmax;
  };
  Quantized part_of(const at::Tensor& bytes, const Piece& piece) const;
  void end_gather();
  void drop_gathering();
  void free_gathered();

  std::string name_;
  const runtime::Group& shard_group_;
  FlatLayout pieces_;
  FlatLayout trained_;          // the trainable pieces, which come first in pieces_
  at::TensorOptions compute_;   // dtype and device of the full tensors
  at::TensorOptions gathered_;  // dtype and device of shards in an all-gather
  ParamGroupOptions options_;
  // Whether the full tensors are views of the flat shard: nothing is gathered or cast.
  bool aliased_;

  std::vector<LocalParameter> owned_;
  at::Tensor flat_;
  GradientReducer gradients_;
  std::vector<at::Tensor> full_;  // one full tensor per parameter
  // The autograd leaves that the layers compute with: full_, or the tensors of torch modules.
  std::vector<at::Tensor> leaves_;
  bool of_modules_ = false;  // whether leaves_ are tensors of torch modules
  bool unsharded_ = false;

  bool begun_ = false;  // whether a gather, or a copy from host memory, is in flight
  runtime::Pending gathering_;
  at::Tensor gather_input_;
  at::Tensor gather_output_;  // gathered shards, one row per rank
  at::Tensor kept_;           // this rank's shard over the post-forward group
};

}  // namespace am::parallel
