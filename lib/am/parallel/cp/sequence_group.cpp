#include "am/parallel/cp/sequence_group.h"

#include <ATen/ATen.h>

namespace am::parallel::cp {

namespace {

// Calls visit(rank, first, run) for every run of consecutive positions of every rank. `run`: the
// positions in the sequence; `first`: index of the run's first position within the rank's part.
template <typename Visit>
void for_runs(const mesh::SequenceCut& cut, const Visit& visit) {
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    int64_t first = 0;
    for (const mesh::Extent& run : cut.parts(rank)) {
      visit(rank, first, run);
      first += run.size;
    }
  }
}

}  // namespace

mesh::SequenceCut SequenceGroup::cut(int64_t local) const {
  return mesh::cut_sequence({.length = local * size(), .ranks = size(), .order = order});
}

KeysAndValues::KeysAndValues(const nn::Qkv& like)
    : keys_(like.k_BGsK), values_(like.v_BGsV), options_(like.k_BGsK.options()) {}

at::Tensor KeysAndValues::packed(const at::Tensor& k_BGsK, const at::Tensor& v_BGsV) const {
  return at::cat({k_BGsK.reshape({-1}), v_BGsV.reshape({-1})});
}

at::Tensor KeysAndValues::zeros(at::ScalarType dtype) const {
  return at::zeros({numel()}, options_.dtype(dtype));
}

at::Tensor KeysAndValues::keys(const at::Tensor& packed) const {
  return packed.narrow(-1, 0, keys_.numel).unflatten(-1, keys_.sizes);
}

at::Tensor KeysAndValues::values(const at::Tensor& packed) const {
  return packed.narrow(-1, keys_.numel, values_.numel).unflatten(-1, values_.sizes);
}

at::Tensor in_order(const at::Tensor& x_PBGsX, const mesh::SequenceCut& cut) {
  std::vector<int64_t> sizes = x_PBGsX.sizes().slice(1).vec();
  sizes[kPositionDim] = cut.padded;
  const at::Tensor x_BGTX = at::empty(sizes, x_PBGsX.options());
  for_runs(cut, [&](int64_t rank, int64_t first, const mesh::Extent& run) {
    x_BGTX.narrow(kPositionDim, run.offset, run.size)
        .copy_(x_PBGsX.select(0, rank).narrow(kPositionDim, first, run.size));
  });
  return x_BGTX;
}

void put_by_rank(const at::Tensor& x_BGTX, const mesh::SequenceCut& cut,
                 const at::Tensor& parts_PBGsX) {
  for_runs(cut, [&](int64_t rank, int64_t first, const mesh::Extent& run) {
    parts_PBGsX.select(0, rank)
        .narrow(kPositionDim, first, run.size)
        .copy_(x_BGTX.narrow(kPositionDim, run.offset, run.size));
  });
}

}  // namespace am::parallel::cp
