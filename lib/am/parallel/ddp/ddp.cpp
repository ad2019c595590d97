#include "am/parallel/ddp/ddp.h"

#include "am/tensor/dtype.h"

namespace am::parallel {

DataParallelOptions ddp_options(const planner::Layout& layout, at::ScalarType storage_dtype) {
  DataParallelOptions options;
  options.storage_dtype = storage_dtype;
  options.reshard_after_forward.assign(layout.units.size(), false);
  return options;
}

Parallelized parallelize_ddp(const StrategyInput& input) {
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input, /*sequence_parallel=*/false);
  made.data_parallel = apply_fsdp_sharding_recursively(
      input, ddp_options(input.layout, tensor::parse_dtype(input.plan.model.dtype)));
  return made;
}

}  // namespace am::parallel
