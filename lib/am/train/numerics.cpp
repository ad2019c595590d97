#include "am/train/numerics.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace am::train {

void set_numerics(const config::TrainSection& train) {
  at::Context& context = at::globalContext();
  context.setFloat32MatmulPrecision(train.matmul_precision);
  if (!train.deterministic) return;
  // cuBLAS requires this variable for deterministic products on several streams.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // PyTorch's deterministic mode fills uninitialised tensors by default. The fill costs time and is
  // not needed, because automesh reads no uninitialised memory.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace am::train
