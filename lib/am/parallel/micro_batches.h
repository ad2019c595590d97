// Source of the micro-batches that a pass through the model reads, and the options of the pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace am::parallel {

// This rank's B sequences of T tokens of one micro-batch: int64 tensors on the model's device.
struct MicroBatch {
  at::Tensor ids_BT;
  at::Tensor labels_BT;
  // Position of each token in its document; undefined: 0, 1, 2, ... in every row. If the model is
  // on a CUDA GPU, this tensor is in host memory, unlike the other two.
  at::Tensor positions_BT;
  int64_t first_sequence = 0;  // index, in the global batch, of the first of these sequences
};

class MicroBatches {
 public:
  virtual ~MicroBatches() = default;
  // Returns the number of micro-batches of the pass.
  virtual int64_t count() const = 0;
  // Returns this rank's part of micro-batch `m`, counted from 0.
  virtual MicroBatch read(int64_t m) = 0;
};

// Options of a forward and backward pass over micro-batches.
struct PassOptions {
  // Number by which the sum of cross-entropies is divided before backward: the number of labels in
  // the global batch, divided by the loss scale (1 without a loss scale).
  double divisor = 1.0;
  // Whether this is the step's last pass, in which the last micro-batch's backward reduces the
  // gradients over the ranks. If false, the strategy decides whether each backward reduces its
  // gradients or leaves them for a later pass (config::defers_gradient_sync).
  bool reduce = true;
  // Seed and step number that determine the dropout masks of adapters (LoRA).
  uint64_t seed = 0;
  int64_t step = 0;
  // Called with "forward" after this rank's last forward, and with "backward" at the end of the
  // pass.
  std::function<void(const char* phase)> phase_over = {};
};

}  // namespace am::parallel
