// The group over which sequences are sharded, and helpers of the context-parallel attention
// methods.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/mesh/sequence_cut.h"
#include "am/nn/attention/block_kernel.h"
#include "am/runtime/group.h"

namespace am::parallel::cp {

inline constexpr int64_t kPositionDim = 2;  // the position dim of [B, H, T, X]

// The ranks that share sequences, and the order of their parts. Must outlive the autograd graphs
// built with it: backward keeps its address.
struct SequenceGroup {
  const runtime::Group* group;
  mesh::SequenceOrder order = mesh::SequenceOrder::kHeadTail;

  int64_t size() const { return group->size(); }
  int64_t index() const { return group->index(); }
  // Returns how sequences are cut over the ranks if each rank has `local` positions.
  mesh::SequenceCut cut(int64_t local) const;
};

// Layout of a rank's keys and values, or of their gradients, in one buffer that one message sends.
class KeysAndValues {
 public:
  explicit KeysAndValues(const nn::Qkv& like);

  int64_t numel() const { return keys_.numel + values_.numel; }
  // Returns the keys and values, copied into one buffer [numel()].
  at::Tensor packed(const at::Tensor& k_BGsK, const at::Tensor& v_BGsV) const;
  // Returns a buffer [numel()] of zeros.
  at::Tensor zeros(at::ScalarType dtype) const;
  // Return views of the keys, and of the values, in packed buffers: [.., numel()] -> [.., B, G, s,
  // X].
  at::Tensor keys(const at::Tensor& packed) const;
  at::Tensor values(const at::Tensor& packed) const;

 private:
  struct Form {
    explicit Form(const at::Tensor& like) : sizes(like.sizes().vec()), numel(like.numel()) {}
    std::vector<int64_t> sizes;
    int64_t numel;
  };
  Form keys_, values_;
  at::TensorOptions options_;
};

// Joins the parts of all ranks, x_PBGsX: returns x_BGTX in the order of the sequence.
at::Tensor in_order(const at::Tensor& x_PBGsX, const mesh::SequenceCut& cut);
// Performs the inverse of in_order: copies x_BGTX into the parts of all ranks, parts_PBGsX.
void put_by_rank(const at::Tensor& x_BGTX, const mesh::SequenceCut& cut,
                 const at::Tensor& parts_PBGsX);

}  // namespace am::parallel::cp
