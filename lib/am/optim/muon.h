// Muon: updates the matrices of the decoder layers by the orthogonal factor of their momentum, and
// all other parameters by AdamW. The update equals torch.optim.Muon's. For an A x B matrix p with
// gradient g, momentum buffer b and momentum coefficient mu:
//
//   b <- mu b + (1 - mu) g;  u = (1 - mu) g + mu b (Nesterov's), or b
//   p <- p * (1 - lr weight_decay) - lr s orthogonal_factor(u)
//   s = sqrt(max(1, A / B)), or 0.2 sqrt(max(A, B)) to match the RMS of AdamW's updates
//
// Note [Whole matrices]: the orthogonal factor requires the whole matrix, but a rank stores shards.
// The matrices of one flat tensor form a unit. One all-gather collects the shards of u for all
// matrices of a unit, rounded to bfloat16, the dtype of the Newton-Schulz iteration. Each matrix
// has an owner: the rank of the shard group that computes the matrix's factor. A reduce-scatter
// then sends every rank its shards of the factors. The sums of the reduce-scatter are exact,
// because all ranks but the owner contribute zeros. A rank thus stores whole matrices of at most
// one unit at a time, and the ranks share the work. The additional traffic of a step is one gather
// and one reduction of each unit. A matrix that tp shards is also gathered over tp, and all tp
// ranks compute its factor. Replicas compute equal results from equal inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/layout/layout.h"
#include "am/optim/elementwise.h"
#include "am/optim/optimizer.h"
#include "am/parallel/param_group/flat_layout.h"
#include "am/runtime/device_mesh.h"

namespace am::optim {

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  bool match_rms_adamw = false;
  // Options of AdamW for the parameters that Muon does not update.
  ElementwiseOptions rest;
};

// This rank's shard of a matrix: a range of a flat tensor.
struct MatrixPiece {
  const layout::ParameterLayout* layout = nullptr;
  FlatRange range;
};

// The matrices of one flat tensor. All of them are sharded over the group `shard`.
struct MatrixUnit {
  std::vector<MatrixPiece> matrices;
  const runtime::Group* shard = nullptr;
};

class Muon : public Optimizer {
 public:
  // `flats`: the flat tensors of the trainable parameters. `units`: the matrices that Muon updates.
  // `rest`: the parameters that AdamW updates. The mesh, the groups and the layouts must outlive
  // this object.
  Muon(const std::vector<at::Tensor>& flats, const std::vector<MatrixUnit>& units,
       const std::vector<ParameterRun>& rest, const runtime::DeviceMesh& mesh,
       const MuonOptions& options);

  void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
              double factor) override;
  std::vector<StateTensor> state_of(const FlatRange& range) const override;

 private:
  struct Matrix {
    MatrixPiece what;
    at::Tensor parameter;  // flat view of this rank's shard
    at::Tensor momentum;
    // Index, in the shard group, of the rank that computes the matrix's orthogonal factor.
    int64_t owner = 0;
    double scale = 1.0;
  };
  struct Unit {
    std::vector<Matrix> matrices;
    const runtime::Group* shard;
    parallel::FlatLayout pieces;  // layout of a flat tensor that consists of this unit's matrices
  };

  at::Tensor direction(const Matrix& matrix, const at::Tensor& gradient) const;
  at::Tensor factor(const layout::ParameterLayout& layout, at::Tensor of_tp) const;
  void move(const Matrix& matrix, const at::Tensor& factor, double lr) const;
  void update_whole(const Unit& unit, const at::Tensor& gradient, double lr) const;
  void update_pieces(const Unit& unit, const at::Tensor& gradient, double lr) const;

  const runtime::DeviceMesh& mesh_;
  MuonOptions options_;
  Elementwise rest_;
  std::vector<Unit> units_;
};

}  // namespace am::optim
