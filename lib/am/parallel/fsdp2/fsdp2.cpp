#include "am/parallel/fsdp2/fsdp2.h"

#include <variant>

#include "am/layout/units.h"
#include "am/tensor/dtype.h"

namespace am::parallel {

DataParallelOptions fsdp2_options(const config::FSDP2Config& config, const layout::Layout& layout,
                                  at::ScalarType storage_dtype) {
  DataParallelOptions options;
  options.storage_dtype = storage_dtype;
  const auto& policy = config.mp_policy;
  if (policy.param_dtype) options.precision.param_dtype = tensor::parse_dtype(*policy.param_dtype);
  if (policy.reduce_dtype) {
    options.precision.reduce_dtype = tensor::parse_dtype(*policy.reduce_dtype);
  }
  options.cast_forward_inputs = policy.cast_forward_inputs;
  options.reshard_after_forward =
      layout::reshard_after_forward(config, layout.units, layout.mesh.sizes().pp);
  options.post_forward_size = layout::post_forward_size(config, layout.mesh.sizes());
  if (layout::offloads_to_host(config)) {
    options.offload = Offload{config.offload_policy->pin_memory};
  }
  options.prefetch = layout::prefetch_depths(config);
  return options;
}

Parallelized parallelize_fsdp2(const StrategyInput& input) {
  const auto& config = std::get<config::FSDP2Config>(input.plan.strategy);
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input);
  if (config.patch_is_packed_sequence) input.decoder.ignore_packing();
  if (config.autocast_dtype) {
    input.decoder.set_autocast(tensor::parse_dtype(*config.autocast_dtype));
  }
  if (config.mp_policy.output_dtype) {
    made.output_dtype = tensor::parse_dtype(*config.mp_policy.output_dtype);
  }
  DataParallelOptions options =
      fsdp2_options(config, input.layout, tensor::parse_dtype(input.plan.model.dtype));
  // On the host, prefetching overlaps nothing. The device decides, because a plan may name no
  // backend.
  if (input.mesh.device().is_cpu() && !config.enable_fsdp2_prefetch) options.prefetch = {};
  made.data_parallel = apply_fsdp_sharding_recursively(input, options);
  return made;
}

}  // namespace am::parallel
