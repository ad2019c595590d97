// The group over which sequences are sharded, and helpers of the context-parallel attention
// methods. Legend: as in nn/attention/block_kernel.h; also P ranks of the group, and X the width of
// keys or of values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/mesh/sequence_cut.h"
#include "am/nn/attention/block_kernel.h"
#include "am/runtime/group.h"

namespace am::parallel::cp {

inline constexpr int64_t kPositionDim = 2;  // the position dim of [B, H, T, X]

// The ranks that share sequences, and the order of their parts. A SequenceGroup must outlive the
// autograd graphs of attention over it, because the graphs store its address.
struct SequenceGroup {
  const runtime::Group* group;
  mesh::SequenceOrder order = mesh::SequenceOrder::kHeadTail;

  int64_t size() const { return group->size(); }
  int64_t index() const { return group->index(); }
  // Returns the cut of a sequence over the ranks, for parts of `local` positions.
  mesh::SequenceCut cut(int64_t local) const;
};

// Layout of a rank's keys and values, or of their gradients, in one buffer that one message sends.
class KeysAndValues {
 public:
  // `like`: keys and values with the shapes, dtype and device to use; the queries are not read.
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

// Joins the parts of all ranks, x_PBGsX. Returns x_BGTX in the order of positions, with padding.
at::Tensor in_order(const at::Tensor& x_PBGsX, const mesh::SequenceCut& cut);
// Performs the inverse of in_order: copies x_BGTX into the parts of all ranks, parts_PBGsX.
void put_by_rank(const at::Tensor& x_BGTX, const mesh::SequenceCut& cut,
                 const at::Tensor& parts_PBGsX);

}  // namespace am::parallel::cp
