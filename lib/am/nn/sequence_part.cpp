#include "am/nn/sequence_part.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "am/base/fault.h"

namespace am::nn {

mesh::SequenceCut SequencePart::cut(int64_t length) const {
  return mesh::cut_sequence({length, ranks, order, pieces});
}

int64_t SequencePart::padding_of_experts(int64_t length) const {
  if (fault::is_planted(fault::Fault::kEpPadding)) return 0;
  const mesh::SequenceCut whole = cut(length);
  int64_t real = 0;
  for (const mesh::Extent& run : whole.parts(index)) {
    real += std::clamp<int64_t>(length - run.offset, 0, run.size);
  }
  const mesh::Extent piece = mesh::chunk(whole.local(), dealt_pieces, dealt_piece);
  return piece.size - std::clamp<int64_t>(real - piece.offset, 0, piece.size);
}

at::Tensor SequencePart::padded(const at::Tensor& x, double padding) const {
  const mesh::SequenceCut whole = cut(x.size(-1));
  if (whole.padded == whole.length) return x;
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = whole.padded - whole.length;
  return at::cat({x, at::full(sizes, padding, x.options())}, -1);
}

at::Tensor SequencePart::of(const at::Tensor& x, double padding) const {
  if (ranks == 1) return x.narrow(-1, first, x.size(-1) - first);
  const at::Tensor all = padded(x, padding);
  std::vector<at::Tensor> runs;
  for (const mesh::Extent& run : cut(x.size(-1)).parts(index)) {
    runs.push_back(all.narrow(-1, run.offset, run.size));
  }
  return at::cat(runs, -1);
}

}  // namespace am::nn
