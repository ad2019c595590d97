// Muon: matrices of the decoder layers move along the orthogonal factor of their momentum;
// everything else is AdamW's. torch.optim.Muon's update of an A x B matrix, with momentum mu:
//
//   b <- mu b + (1 - mu) g;  u = (1 - mu) g + mu b (Nesterov's), or b
//   p <- p * (1 - lr weight_decay) - lr s orthogonal_factor(u)
//   s = sqrt(max(1, A / B)), or 0.2 sqrt(max(A, B)) to match AdamW's step
//
// Note [Whole matrices]: the factor is one of the whole matrix, and a rank has pieces. A unit's
// pieces of u, rounded to bfloat16 as the iteration rounds them anyway, are gathered in one
// message; each rank of the shard group computes the factors of some of its matrices; and a
// reduce-scatter in which the others have zeros hands everyone the pieces of the result, exactly.
// So no more than a unit is whole at a time, the work is shared, and the messages are those of one
// more gather and reduction of the unit. Over tp the ranks that have the same pieces of a unit
// gather theirs of each matrix and compute it together. Replicas compute the same from the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/optim/elementwise.h"
#include "am/optim/optimizer.h"
#include "am/parallel/param_group/flat_layout.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::optim {

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  bool match_rms_adamw = false;
  ElementwiseOptions rest;  // also the matrices' weight_decay
};

// A matrix in a flat tensor.
struct MatrixPiece {
  const planner::ParameterLayout* layout = nullptr;
  FlatRange range;
};

// Matrices of one flat tensor, which are cut over the same group.
struct MatrixUnit {
  std::vector<MatrixPiece> matrices;
  const runtime::Group* shard = nullptr;
};

class Muon : public Optimizer {
 public:
  // `rest`: what AdamW updates. The mesh, the groups and the layouts must outlive it.
  Muon(const std::vector<at::Tensor>& flats, const std::vector<MatrixUnit>& units,
       const std::vector<ParameterRun>& rest, const runtime::DeviceMesh& mesh,
       const MuonOptions& options);

  void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
              double factor) override;
  std::vector<StateTensor> state_of(const FlatRange& range) const override;

 private:
  struct Matrix {
    MatrixPiece what;
    at::Tensor parameter;  // flat, as the momentum
    at::Tensor momentum;
    int64_t owner = 0;  // the index in the shard group that computes its factor
    double scale = 1.0;
  };
  struct Unit {
    std::vector<Matrix> matrices;
    const runtime::Group* shard;
    parallel::FlatLayout pieces;  // of the matrices alone, one after the other
  };

  at::Tensor direction(const Matrix& matrix, const at::Tensor& gradient) const;
  at::Tensor factor(const planner::ParameterLayout& layout, at::Tensor of_tp) const;
  void move(const Matrix& matrix, const at::Tensor& factor, double lr) const;
  void update_whole(const Unit& unit, const at::Tensor& gradient, double lr) const;
  void update_pieces(const Unit& unit, const at::Tensor& gradient, double lr) const;

  const runtime::DeviceMesh& mesh_;
  MuonOptions options_;
  Elementwise rest_;
  std::vector<Unit> units_;
};

}  // namespace am::optim
