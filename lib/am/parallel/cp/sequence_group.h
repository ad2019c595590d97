// Sequences that lie on the ranks of a group, and what all ways of attention over them share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/mesh/sequence_cut.h"
#include "am/nn/attention/block_kernel.h"
#include "am/runtime/group.h"

namespace am::parallel::cp {

inline constexpr int64_t kPositionDim = 2;  // of [B, H, T, X]

// Outlives the graphs of what it attends to: backward keeps its address.
struct SequenceGroup {
  const runtime::Group* group;
  mesh::SequenceOrder order = mesh::SequenceOrder::kHeadTail;

  int64_t size() const { return group->size(); }
  int64_t index() const { return group->index(); }
  // Of sequences of which each rank has so many positions.
  mesh::SequenceCut cut(int64_t local) const;
};

// Keys and values in one buffer, so that one message has both: those of a rank, or gradients of
// them.
class KeysAndValues {
 public:
  explicit KeysAndValues(const nn::Heads& like);

  int64_t numel() const { return keys_.numel + values_.numel; }
  // [numel()]: a copy.
  at::Tensor packed(const at::Tensor& k_BGsK, const at::Tensor& v_BGsV) const;
  // Zeros of a dtype.
  at::Tensor zeros(at::ScalarType dtype) const;
  // Views into what was packed, here or on each rank of a group: [.., numel()] -> [.., B, G, s, X].
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

// Of x_PBGsX, the parts of all ranks in the group's order: BGTX, in the order of the sequence.
at::Tensor in_order(const at::Tensor& x_PBGsX, const mesh::SequenceCut& cut);
// The other way, into parts_PBGsX.
void put_by_rank(const at::Tensor& x_BGTX, const mesh::SequenceCut& cut,
                 const at::Tensor& parts_PBGsX);

}  // namespace am::parallel::cp
