#include "am/parallel/megatron_fsdp/megatron_fsdp.h"

#include <utility>
#include <variant>

#include "am/layout/buckets.h"
#include "am/layout/units.h"
#include "am/tensor/dtype.h"

namespace am::parallel {

DataParallelOptions megatron_fsdp_options(const config::MegatronFSDPConfig& config,
                                          const layout::Layout& layout,
                                          const layout::StepPrecision& precision) {
  DataParallelOptions options;
  options.storage_dtype = tensor::parse_dtype(precision.storage);
  options.precision.param_dtype = tensor::parse_dtype(precision.compute);
  options.precision.reduce_dtype = tensor::parse_dtype(precision.reduce);
  options.reshard_after_forward =
      layout::reshard_after_forward(config, layout.units, layout.mesh.sizes().pp);
  options.prefetch = layout::prefetch_depths(config);
  options.overlap_reduction = layout::overlaps_reduction(config);
  options.reuse_buffers = layout::reuses_buffers(config);
  options.check_for_nan = config.check_for_nan_in_grad;
  options.report_nan = config.report_nan_in_param_grad;
  return options;
}

Parallelized parallelize_megatron_fsdp(const StrategyInput& input) {
  const auto& config = std::get<config::MegatronFSDPConfig>(input.plan.strategy);
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input);
  DataParallelOptions options =
      megatron_fsdp_options(config, input.layout, layout::resolve_precision(input.plan));
  options.buckets = layout::gradient_buckets(input.plan, input.layout);
  // With a loss scale, overflowing gradients are expected and adjust the scale, so they are not
  // checked, as in Megatron.
  if (layout::scales_loss(input.plan)) options.check_for_nan = options.report_nan = false;
  made.data_parallel = apply_fsdp_sharding_recursively(input, std::move(options));
  return made;
}

}  // namespace am::parallel
