#include "am/train/numerics.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace am::train {

void set_numerics(const config::TrainSection& train) {
  at::Context& context = at::globalContext();
  context.setFloat32MatmulPrecision(train.matmul_precision);
  if (!train.deterministic) return;
  // Required by cuBLAS for deterministic products: streams share no workspace of this kind.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // No uninitialised memory is read; the fill would be a pass over each new tensor.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace am::train
