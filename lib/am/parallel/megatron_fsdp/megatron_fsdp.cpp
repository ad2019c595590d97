#include "am/parallel/megatron_fsdp/megatron_fsdp.h"

#include <utility>
#include <variant>

#include "am/planner/buckets.h"
#include "am/planner/units.h"
#include "am/tensor/dtype.h"

namespace am::parallel {

DataParallelOptions megatron_fsdp_options(const config::MegatronFSDPConfig& config,
                                          const planner::Layout& layout,
                                          const planner::StepPrecision& precision) {
  DataParallelOptions options;
  options.storage_dtype = tensor::parse_dtype(precision.storage);
  options.precision.param_dtype = tensor::parse_dtype(precision.compute);
  options.precision.reduce_dtype = tensor::parse_dtype(precision.reduce);
  options.reshard_after_forward =
      planner::reshard_after_forward(config, layout.units, layout.mesh.sizes().pp);
  options.prefetch = planner::prefetch_depths(config);
  options.overlap_reduction = planner::overlaps_reduction(config);
  options.reuse_buffers = planner::reuses_buffers(config);
  options.check_for_nan = config.check_for_nan_in_grad;
  options.report_nan = config.report_nan_in_param_grad;
  return options;
}

Parallelized parallelize_megatron_fsdp(const StrategyInput& input) {
  const auto& config = std::get<config::MegatronFSDPConfig>(input.plan.strategy);
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input);
  DataParallelOptions options =
      megatron_fsdp_options(config, input.layout, planner::resolve_precision(input.plan));
  options.buckets = planner::gradient_buckets(input.plan, input.layout);
  // As in Megatron: under a loss scale a gradient that overflows is how the scale is found.
  if (planner::scales_loss(input.plan)) options.check_for_nan = options.report_nan = false;
  made.data_parallel = apply_fsdp_sharding_recursively(input, std::move(options));
  return made;
}

}  // namespace am::parallel
