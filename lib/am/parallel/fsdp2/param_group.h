// One FSDP unit's parameters: the flat shard that this rank stores, and the full tensors that exist
// only while they are needed.
//
// The decomposition is PyTorch's: a group's parameters travel in one all-gather and one
// reduce-scatter. Each parameter is cut on dim 0 by torch.chunk; every piece is padded to
// chunk_length, so that ranks hold equal amounts. HSDP adds an all-reduce over dp_replicate. A
// shard group of one rank gathers nothing: with a replicate group of all data-parallel ranks, that
// is DDP.
//
// Note [Freed storage]: autograd's graph keeps the full tensors that the forward pass used. Freeing
// one means resizing its storage to nothing while the tensor stays; gathering again for backward
// fills the same tensor. The writes go through an alias with a version counter of its own, so that
// autograd does not take them for changes to what it saved.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "am/mesh/shard.h"
#include "am/nn/layers.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// PyTorch's MixedPrecisionPolicy with dtypes resolved; absent means the storage dtype.
struct Precision {
  std::optional<at::ScalarType> param_dtype;   // of gathered parameters and of the computation
  std::optional<at::ScalarType> reduce_dtype;  // of the gradient reduction
};

// What this rank stores of one parameter. Padding is left out.
struct OwnedParameter {
  std::string name;
  Shape shape;                // global
  mesh::Box box;              // this rank's part of it
  at::Tensor value;           // [box.shape], a view of the group's flat shard
  bool first_replica = true;  // exactly one rank among those that store the same box says true
};

class ParamGroup {
 public:
  // `parameters` and `layouts` are parallel; `mesh` must outlive the group. Storage starts as
  // zeros.
  ParamGroup(std::string name, std::vector<nn::ParameterPtr> parameters,
             std::vector<const planner::ParameterLayout*> layouts, const runtime::DeviceMesh& mesh,
             at::ScalarType storage_dtype, const Precision& precision);
  ParamGroup(const ParamGroup&) = delete;
  ParamGroup& operator=(const ParamGroup&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<OwnedParameter>& owned() const { return owned_; }
  // All that this rank stores, padding included; and its gradient, undefined before the first
  // reduction.
  const at::Tensor& flat() const { return flat_; }
  const at::Tensor& flat_grad() const { return flat_grad_; }
  // [box.shape] view of owned()[i]'s part in any tensor laid out like flat(): its gradient, an
  // optimizer moment.
  at::Tensor view_in(const at::Tensor& flat, size_t i) const;

  // Full tensors: begin gathering, wait for them, free them. unshard() = begin + wait; all are
  // idempotent.
  void begin_unshard();
  void unshard();
  void reshard();
  bool is_unsharded() const { return unsharded_; }
  // Bytes of the full tensors while they exist in storage of their own.
  int64_t unsharded_bytes() const;

  // Takes the full tensors' gradients. With `sync` they are reduced over the shard and replicate
  // groups and added to flat_grad(); without, they are kept unsharded in the reduce dtype until a
  // call with `sync`.
  void begin_reduce(bool sync);
  void finish_reduce();
  bool has_new_gradients() const;
  void zero_grad();

 private:
  struct Piece {
    int64_t flat_offset = 0;  // in the flat shard
    int64_t flat_length = 0;  // padding included
    int64_t rows = 0;         // dim 0 of the full (tp-local) tensor
    int64_t row_numel = 0;    // elements per row
    Shape full_shape;         // tp-local
    bool grad_sum_over_tp = false;
  };

  at::TensorOptions on_device(at::ScalarType dtype) const;
  void make_full_tensors();
  template <typename Visit>
  void for_each_part(const Piece& piece, const at::Tensor& full, const at::Tensor& ranks,
                     const Visit& visit) const;
  void copy_out(const at::Tensor& gathered);
  std::vector<at::Tensor> take_gradients(bool sync);
  void sum_over_tp(std::vector<at::Tensor>& gradients) const;
  void pack(const std::vector<at::Tensor>& gradients, at::Tensor& buffer) const;

  std::string name_;
  std::vector<nn::ParameterPtr> parameters_;
  const runtime::Group& shard_group_;
  const runtime::Group& replicate_group_;
  const runtime::Group& tp_group_;
  at::Device device_;
  at::ScalarType param_dtype_;
  at::ScalarType reduce_dtype_;
  bool aliased_;  // full tensors are views of the flat shard: nothing to gather, nothing to cast

  std::vector<Piece> pieces_;
  std::vector<OwnedParameter> owned_;
  at::Tensor flat_;
  at::Tensor flat_grad_;
  bool flat_grad_valid_ = false;
  std::vector<at::Tensor> full_;         // leaves that the layers compute with
  std::vector<at::Tensor> accumulated_;  // unsharded gradients kept from calls without sync
  bool unsharded_ = false;

  runtime::Pending gathering_;
  at::Tensor gather_input_;
  at::Tensor gather_output_;
  runtime::Pending reducing_;
  at::Tensor reduced_;
};

}  // namespace am::parallel
