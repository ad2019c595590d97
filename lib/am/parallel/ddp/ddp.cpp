#include "am/parallel/ddp/ddp.h"

#include "am/layout/buckets.h"
#include "am/layout/precision.h"
#include "am/tensor/dtype.h"

namespace am::parallel {

DataParallelOptions ddp_options(const config::Plan& plan, const layout::Layout& layout) {
  DataParallelOptions options;
  options.storage_dtype = tensor::parse_dtype(plan.model.dtype);
  options.buckets = layout::gradient_buckets(plan, layout);
  options.reshard_after_forward.assign(layout.units.size(), false);
  return options;
}

Parallelized parallelize_ddp(const StrategyInput& input) {
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input);
  if (const auto& dtype = layout::autocast_dtype(input.plan.strategy)) {
    input.decoder.set_autocast(tensor::parse_dtype(*dtype));
  }
  made.data_parallel =
      apply_fsdp_sharding_recursively(input, ddp_options(input.plan, input.layout));
  return made;
}

}  // namespace am::parallel
