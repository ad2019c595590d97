#include "am/parallel/tp/pieces.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "am/tensor/redistribute.h"

namespace am::parallel::tp {

at::Tensor gather_parameter(const at::Tensor& local, const layout::ParameterLayout& parameter,
                            const runtime::DeviceMesh& mesh) {
  if (!parameter.tp_dim) return local;
  const runtime::Group& group = mesh.group("tp");
  const int64_t dim = *parameter.tp_dim;
  const auto at_dim = static_cast<size_t>(dim);
  if (parameter.tp_slices.empty()) {
    return tensor::all_gather_dim(local, dim, parameter.shape.at(at_dim), group);
  }
  int64_t longest = 0;
  for (const int64_t rank : group.ranks()) {
    longest = std::max(longest, parameter.tp_shape(mesh.layout(), rank)[at_dim]);
  }
  std::vector<int64_t> padded_shape = local.sizes().vec();
  padded_shape[at_dim] = longest;
  at::Tensor padded = at::zeros(padded_shape, local.options());
  padded.narrow(dim, 0, local.size(dim)).copy_(local);
  const at::Tensor all = tensor::all_gather_dim(padded, dim, longest * group.size(), group);
  at::Tensor whole = at::empty(parameter.shape, local.options());
  for (int64_t index = 0; index < group.size(); ++index) {
    int64_t start = index * longest;
    const int64_t rank = group.ranks()[static_cast<size_t>(index)];
    for (const mesh::Extent& extent : parameter.tp_extents(mesh.layout(), rank)) {
      whole.narrow(dim, extent.offset, extent.size).copy_(all.narrow(dim, start, extent.size));
      start += extent.size;
    }
  }
  return whole;
}

at::Tensor own_pieces(const at::Tensor& whole, const layout::ParameterLayout& parameter,
                      const runtime::DeviceMesh& mesh) {
  if (!parameter.tp_dim) return whole;
  std::vector<at::Tensor> pieces;
  for (const mesh::Extent& extent : parameter.tp_extents(mesh.layout(), mesh.rank())) {
    pieces.push_back(whole.narrow(*parameter.tp_dim, extent.offset, extent.size));
  }
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces, *parameter.tp_dim);
}

}  // namespace am::parallel::tp
