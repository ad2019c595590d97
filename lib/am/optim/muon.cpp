#include "am/optim/muon.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "am/config/optimizer.h"
#include "am/optim/newton_schulz.h"
#include "am/parallel/tp/pieces.h"
#include "am/tensor/memory_meter.h"

namespace am::optim {

namespace {

using tensor::MemoryUse;
using tensor::TensorUse;

double scale_of(const Shape& shape, bool match_rms_adamw) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  if (match_rms_adamw) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

// Returns an estimate of the work of one Newton-Schulz iteration: the number of multiplications in
// the product of the matrix and its transpose, in the order with the smaller result.
double work_of(const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  return rows * columns * std::min(rows, columns);
}

// Assigns the matrices to the ranks of a shard group. Returns, for each matrix, the index of the
// rank that computes the matrix's orthogonal factor. Balances the work greedily: starts with the
// matrix that needs the most work, and assigns each matrix to the rank with the least work so far.
std::vector<int64_t> deal_out(const std::vector<MatrixPiece>& matrices, int64_t ranks) {
  std::vector<size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto work = [&](size_t i) { return work_of(matrices[i].layout->shape); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return work(a) > work(b); });
  std::vector<double> loads(static_cast<size_t>(ranks), 0.0);
  std::vector<int64_t> owners(matrices.size());
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += work(i);
    owners[i] = least - loads.begin();
  }
  return owners;
}

parallel::FlatLayout pieces_of(const MatrixUnit& unit, const runtime::DeviceMesh& mesh) {
  std::vector<const layout::ParameterLayout*> layouts;
  for (const MatrixPiece& piece : unit.matrices) layouts.push_back(piece.layout);
  return {layouts, mesh.layout(), mesh.rank(), unit.shard->size()};
}

}  // namespace

Muon::Muon(const std::vector<at::Tensor>& flats, const std::vector<MatrixUnit>& units,
           const std::vector<ParameterRun>& rest, const runtime::DeviceMesh& mesh,
           const MuonOptions& options)
    : mesh_(mesh), options_(options), rest_(flats, rest, options.rest) {
  const MemoryUse use(options.rest.offloaded ? TensorUse::kHost : TensorUse::kOptimizer);
  for (const MatrixUnit& given : units) {
    if (given.matrices.empty()) continue;
    Unit unit{{}, given.shard, pieces_of(given, mesh)};
    const std::vector<int64_t> owners = deal_out(given.matrices, given.shard->size());
    for (size_t i = 0; i < given.matrices.size(); ++i) {
      const MatrixPiece& piece = given.matrices[i];
      const at::Tensor parameter = piece.range.of(flats);
      unit.matrices.push_back({piece, parameter, at::zeros_like(parameter), owners[i],
                               scale_of(piece.layout->shape, options.match_rms_adamw)});
    }
    units_.push_back(std::move(unit));
  }
}

// Updates the momentum with the gradient. Returns this rank's shard of u (see muon.h) as a flat
// tensor. The orthogonal factor of u is the update.
at::Tensor Muon::direction(const Matrix& matrix, const at::Tensor& gradient) const {
  matrix.momentum.lerp_(gradient, 1.0 - options_.momentum);
  return options_.nesterov ? gradient.lerp(matrix.momentum, options_.momentum) : matrix.momentum;
}

// Returns this tp rank's shard of the orthogonal factor of a matrix. `of_tp`: this tp rank's shard
// of the matrix, in bfloat16; its memory may be overwritten.
at::Tensor Muon::factor(const layout::ParameterLayout& layout, at::Tensor of_tp) const {
  if (!layout.tp_dim) return orthogonal_factor(std::move(of_tp));
  at::Tensor whole = parallel::tp::gather_parameter(of_tp, layout, mesh_);
  of_tp.reset();
  whole = orthogonal_factor(std::move(whole));
  return parallel::tp::own_pieces(whole, layout, mesh_);
}

// Applies weight decay and the update to the parameter. `factor`: this rank's shard of the
// orthogonal factor, flat.
void Muon::move(const Matrix& matrix, const at::Tensor& factor, double lr) const {
  const layout::OptimizerOptions& own = matrix.what.layout->optimizer;
  lr = config::parameter_lr(lr, options_.rest.lr, own.lr);
  matrix.parameter.mul_(1.0 - lr * own.weight_decay);
  matrix.parameter.add_(factor.to(matrix.parameter.device()), -lr * matrix.scale);
}

void Muon::update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
                  double factor) {
  rest_.update(gradients, lr, number, factor);
  const MemoryUse use(TensorUse::kCommunication);
  for (const Unit& unit : units_) {
    const at::Tensor& gradient = gradients[unit.matrices.front().what.range.flat];
    if (!gradient.defined()) continue;
    if (unit.shard->size() == 1) {
      update_whole(unit, gradient, lr);
    } else {
      update_pieces(unit, gradient, lr);
    }
  }
}

void Muon::update_whole(const Unit& unit, const at::Tensor& gradient, double lr) const {
  for (size_t i = 0; i < unit.matrices.size(); ++i) {
    const Matrix& matrix = unit.matrices[i];
    at::Tensor part = direction(matrix, matrix.what.range.of(gradient))
                          .to(at::TensorOptions(at::kBFloat16).device(mesh_.device()),
                              /*non_blocking=*/false, /*copy=*/true)
                          .view(unit.pieces[i].full_shape);
    move(matrix, factor(*matrix.what.layout, std::move(part)).reshape({-1}), lr);
  }
}

// Updates matrices that are sharded over several ranks; see Note [Whole matrices] in muon.h.
void Muon::update_pieces(const Unit& unit, const at::Tensor& gradient, double lr) const {
  const parallel::FlatLayout& pieces = unit.pieces;
  const auto options = at::TensorOptions(at::kBFloat16).device(mesh_.device());
  at::Tensor mine = at::empty({pieces.flat_numel()}, options);
  for (size_t i = 0; i < unit.matrices.size(); ++i) {
    const Matrix& matrix = unit.matrices[i];
    mine.narrow(0, pieces[i].flat_offset, pieces[i].flat_length)
        .copy_(direction(matrix, matrix.what.range.of(gradient)));
  }
  const at::Tensor all = at::empty({pieces.ranks(), pieces.flat_numel()}, options);
  unit.shard->all_gather(all, mine);
  for (size_t i = 0; i < unit.matrices.size(); ++i) {
    const Matrix& matrix = unit.matrices[i];
    const parallel::Piece& piece = pieces[i];
    const at::Tensor places = all.narrow(1, piece.flat_offset, piece.flat_length);
    if (matrix.owner != unit.shard->index()) {
      places.zero_();
      continue;
    }
    at::Tensor whole = at::empty({piece.full_numel}, options);
    pieces.for_each_part(i, whole, all, [](const at::Tensor& of_full, const at::Tensor& of_ranks) {
      of_full.copy_(of_ranks);
    });
    whole = whole.view(piece.full_shape);
    whole = factor(*matrix.what.layout, std::move(whole)).reshape({-1});
    places.zero_();  // for_each_part() writes no padding, which must be zero
    pieces.for_each_part(i, whole, all, [](const at::Tensor& of_full, const at::Tensor& of_ranks) {
      of_ranks.copy_(of_full);
    });
  }
  unit.shard->reduce_scatter(mine, all);
  for (size_t i = 0; i < unit.matrices.size(); ++i) {
    move(unit.matrices[i], mine.narrow(0, pieces[i].flat_offset, pieces[i].flat_length), lr);
  }
}

std::vector<StateTensor> Muon::state_of(const FlatRange& range) const {
  for (const Unit& unit : units_) {
    for (const Matrix& matrix : unit.matrices) {
      const FlatRange& own = matrix.what.range;
      if (own.flat == range.flat && own.offset <= range.offset && range.end() <= own.end()) {
        return {{"momentum_buffer",
                 matrix.momentum.narrow(0, range.offset - own.offset, range.length)}};
      }
    }
  }
  return rest_.state_of(range);
}

}  // namespace am::optim
