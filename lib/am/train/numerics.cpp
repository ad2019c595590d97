#include "am/train/numerics.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace am::train {

void set_numerics(const config::TrainSection& train) {
  at::Context& context = at::globalContext();
  context.setFloat32MatmulPrecision(train.matmul_precision);
  if (!train.deterministic) return;
  // Required by cuBLAS for deterministic products on several streams.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // By default, deterministic algorithms fill each new tensor. That pass is not needed: no
  // uninitialised memory is read.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace am::train
