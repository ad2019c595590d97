// set_numerics() applies the plan's determinism and matmul precision to PyTorch's process-wide
// flags.
#include "am/train/numerics.h"

#include <ATen/Context.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

namespace am::train {

TEST_CASE("a plan's numerics are those of the process") {
  at::Context& context = at::globalContext();
  set_numerics({});
  CHECK_FALSE(context.deterministicAlgorithms());
  CHECK(context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST);
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  config::TrainSection train;
  train.deterministic = true;
  train.matmul_precision = "high";
  set_numerics(train);
  CHECK(context.deterministicAlgorithms());
  CHECK_FALSE(context.deterministicFillUninitializedMemory());
  CHECK(context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGH);
  CHECK(std::getenv("CUBLAS_WORKSPACE_CONFIG") == std::string(":4096:8"));
}

}  // namespace am::train
