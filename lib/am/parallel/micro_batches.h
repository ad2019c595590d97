// What a pass through the model reads: micro-batches, one after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::parallel {

// int64, on the model's device.
struct MicroBatch {
  at::Tensor ids_BT;
  at::Tensor labels_BT;
  at::Tensor positions_BT;     // undefined: 0, 1, .. in every row; of GPUs on the host
  int64_t first_sequence = 0;  // the number of the first row in the global batch
};

class MicroBatches {
 public:
  virtual ~MicroBatches() = default;
  virtual int64_t count() const = 0;
  // This rank's part of number `m`, from 0.
  virtual MicroBatch read(int64_t m) = 0;
};

}  // namespace am::parallel
