// Source of the micro-batches that a pass through the model reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::parallel {

// This rank's sequences of one micro-batch: int64 tensors on the model's device.
struct MicroBatch {
  at::Tensor ids_BT;
  at::Tensor labels_BT;
  at::Tensor positions_BT;     // undefined: 0, 1, .. in every row; on the host for GPUs
  int64_t first_sequence = 0;  // index of the first row in the global batch
};

class MicroBatches {
 public:
  virtual ~MicroBatches() = default;
  virtual int64_t count() const = 0;
  // Returns this rank's part of micro-batch `m`, counted from 0.
  virtual MicroBatch read(int64_t m) = 0;
};

}  // namespace am::parallel
