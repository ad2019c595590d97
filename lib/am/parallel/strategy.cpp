#include "am/parallel/strategy.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>
#include <variant>

#include "am/base/error.h"
#include "am/base/shared_library.h"
#include "am/base/text.h"
#include "am/layout/buckets.h"
#include "am/layout/precision.h"
#include "am/layout/units.h"
#include "am/parallel/cp/context_parallel.h"
#include "am/parallel/ep/all_to_all_dispatcher.h"
#include "am/parallel/tp/tensor_parallel.h"
#include "am/tensor/dtype.h"

namespace am::parallel {

namespace {

// Returns the options that the strategies "megatron_fsdp" and "megatron" have in common. The next
// unit is gathered while a unit computes: at ZeRO level 3 always, at levels 1 and 2 with
// overlap_param_gather. Gradients are reduced during backward: at levels 2 and 3 of megatron_fsdp
// always, otherwise with overlap_grad_reduce.
DataParallelOptions megatron_options(const config::Plan& plan, const layout::Layout& layout) {
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  DataParallelOptions options;
  options.storage_dtype = tensor::parse_dtype(precision.storage);
  options.precision.param_dtype = tensor::parse_dtype(precision.compute);
  options.precision.reduce_dtype = tensor::parse_dtype(precision.reduce);
  options.reshard_after_forward =
      layout::reshard_after_forward(plan.strategy, layout.units, layout.mesh.sizes().pp);
  options.prefetch = layout::prefetch_depths(plan.strategy);
  options.overlap_reduction = layout::overlaps_reduction(plan.strategy);
  return options;
}

DataParallelOptions megatron_fsdp_options(const config::MegatronFSDPConfig& config,
                                          const config::Plan& plan, const layout::Layout& layout) {
  DataParallelOptions options = megatron_options(plan, layout);
  options.reuse_buffers = layout::reuses_buffers(config);
  options.check_for_nan = config.check_for_nan_in_grad;
  options.report_nan = config.report_nan_in_param_grad;
  options.buckets = layout::gradient_buckets(plan, layout);
  // With a loss scale, the checks for NaN are off, as in Megatron: overflows are expected, and
  // each overflow lowers the loss scale.
  if (layout::scales_loss(plan)) options.check_for_nan = options.report_nan = false;
  return options;
}

// Returns the options of the strategy "ddp". Under ddp, data parallelism shards no parameter, so
// parameter groups neither gather nor free parameters.
DataParallelOptions ddp_options(const config::Plan& plan, const layout::Layout& layout) {
  DataParallelOptions options;
  options.storage_dtype = tensor::parse_dtype(plan.model.dtype);
  options.buckets = layout::gradient_buckets(plan, layout);
  options.reshard_after_forward.assign(layout.units.size(), false);
  return options;
}

// FSDP2 and HSDP: parameters are sharded over dp_shard_cp, gathered unit by unit, and replicated
// over dp_replicate.
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
  made.data_parallel = apply_fsdp_sharding_recursively(
      input, data_parallel_options(input.plan, input.layout, input.mesh.device()));
  return made;
}

// The strategies ddp, megatron_fsdp, and megatron (Megatron-LM's distributed optimizer, levels 0 to
// 2). Under ddp, every rank stores all parameters, and the gradients are summed bucket by bucket
// during backward. The other two strategies shard by ZeRO level. "name" is Megatron-FSDP's name of
// the level:
//
//   level  optimizer  gradients  parameters   name                 gradients are reduced
//   0      whole      whole      whole        no_shard             in the last micro-batch
//   1      sharded    whole      whole        optim                in the last micro-batch
//   2      sharded    sharded    whole        optim_grads          in each micro-batch
//   3      sharded    sharded    sharded      optim_grads_params   in each micro-batch
//
// At levels 1 and 2, the full parameters are gathered for forward and freed after backward. At
// level 3, a unit is also freed after forward and gathered again for backward. Between steps, a
// rank stores only the part of the parameters that its optimizer updates.
//
// The parameters of a unit form one flat tensor, which one collective gathers, and whose gradients
// one collective reduces (param_group/param_group.h).
Parallelized parallelize_by_options(const StrategyInput& input) {
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input);
  if (const auto& dtype = layout::autocast_dtype(input.plan.strategy)) {
    input.decoder.set_autocast(tensor::parse_dtype(*dtype));
  }
  made.data_parallel = apply_fsdp_sharding_recursively(
      input, data_parallel_options(input.plan, input.layout, input.mesh.device()));
  return made;
}

struct Named {
  std::string name;
  ParallelStrategy strategy;
};

struct Registry {
  std::mutex mutex;
  std::vector<Named> strategies = {{"fsdp2", parallelize_fsdp2},
                                   {"megatron_fsdp", parallelize_by_options},
                                   {"ddp", parallelize_by_options},
                                   {"megatron", parallelize_by_options}};

  Named* find(std::string_view name) {
    const auto found = std::find_if(strategies.begin(), strategies.end(),
                                    [&](const Named& each) { return each.name == name; });
    return found == strategies.end() ? nullptr : &*found;
  }
};

Registry& registry() {
  static Registry all;
  return all;
}

ParallelStrategy load_strategy(const std::string& name, const PluginName& where) {
  const auto make =
      reinterpret_cast<const StrategyPlugin* (*)()>(load_symbol(where.library, where.symbol));
  const StrategyPlugin* plugin = make();
  if (plugin == nullptr || plugin->version == nullptr || plugin->parallelize == nullptr) {
    throw Error(ErrorKind::kRuntime, cat(name, ": ", where.symbol, "() returned no strategy"));
  }
  if (std::string_view(plugin->version) != AM_VERSION) {
    throw Error(ErrorKind::kRuntime,
                cat(name, " was built for automesh ", plugin->version, ", but this is automesh ",
                    AM_VERSION),
                "build the library against this automesh");
  }
  return plugin->parallelize;
}

// Expert parallelism: each rank of the group "ep" holds some of every layer's experts, and tokens
// are sent to the ranks that hold their experts.
void apply_expert_parallel(nn::Decoder& decoder, const runtime::DeviceMesh& mesh) {
  const runtime::Group& group = mesh.group("ep");
  if (group.size() == 1) return;
  const auto dispatcher = std::make_shared<const ep::AllToAllDispatcher>(group);
  for (nn::DecoderLayer& layer : decoder.layers()) {
    if (layer.experts) layer.experts->dispatcher = dispatcher;
  }
}

}  // namespace

void register_parallel_strategy(const std::string& name, ParallelStrategy strategy) {
  if (trim(name).empty()) {
    throw Error(ErrorKind::kUsage, "a parallel strategy needs a name",
                "register_parallel_strategy(\"mine\", my_strategy)");
  }
  if (!strategy) {
    throw Error(ErrorKind::kUsage, cat("no function is given for the strategy \"", name, "\""));
  }
  if (parse_plugin_name(name)) {
    throw Error(
        ErrorKind::kUsage,
        cat("\"", name, "\" cannot be a strategy's name: it has the form of a plugin's name"),
        "choose another name: find_parallel_strategy loads plugins without registration");
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.find(name) != nullptr) {
    throw Error(ErrorKind::kUsage, cat("a strategy named \"", name, "\" is registered already"),
                "give it another name");
  }
  all.strategies.push_back({name, std::move(strategy)});
}

std::vector<std::string> parallel_strategy_names() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const Named& each : all.strategies) names.push_back(each.name);
  return names;
}

ParallelStrategy find_parallel_strategy(const std::string& name) {
  if (const auto plugin = parse_plugin_name(name)) return load_strategy(name, *plugin);
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    if (const Named* found = all.find(name)) return found->strategy;
  }
  const std::vector<std::string> names = parallel_strategy_names();
  const auto near = nearest(name, names);
  throw Error(ErrorKind::kUsage, cat("no parallel strategy is named \"", name, "\""),
              cat(near ? cat("did you mean \"", *near, "\"? ") : std::string(),
                  "legal: ", join(names, ", "), ", or \"libmine.so:symbol\""));
}

mesh::Extent prepare_decoder(const StrategyInput& input) {
  const int64_t part = input.mesh.group("tp").index();
  input.decoder.set_adapter_dropout(input.plan.lora.dropout, part);
  input.decoder.set_embedding_noise(input.plan.train.neftune_noise_alpha, part);
  const mesh::Extent slice = tp::apply_tensor_parallel(input.decoder, input.layout, input.mesh);
  tp::apply_fp8(input.decoder, config::fp8_of(input.plan.strategy), input.layout, input.mesh);
  cp::apply_context_parallel(input.decoder, input.plan, input.layout, input.mesh);
  // Expert parallelism is applied after tensor and context parallelism, which determine the tokens
  // of a rank.
  apply_expert_parallel(input.decoder, input.mesh);
  input.decoder.set_checkpointing(config::checkpointing_of(input.plan.strategy),
                                  config::checkpointing_every(input.plan.strategy));
  return slice;
}

std::unique_ptr<DataParallel> apply_fsdp_sharding_recursively(const StrategyInput& input,
                                                              DataParallelOptions options) {
  if (options.reshard_after_forward.empty()) {
    options.reshard_after_forward = layout::reshard_after_forward(
        config::FSDP2Config{}, input.layout.units, input.layout.mesh.sizes().pp);
  }
  auto made = DataParallel::make({input.decoder.parameters(), input.decoder.unit_uses()},
                                 input.layout, input.mesh, std::move(options));
  input.decoder.set_hooks(made.get());
  return made;
}

DataParallelOptions data_parallel_options(const config::Plan& plan, const layout::Layout& layout,
                                          c10::Device device) {
  if (const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy)) {
    return megatron_fsdp_options(*megatron, plan, layout);
  }
  if (std::holds_alternative<config::MegatronConfig>(plan.strategy)) {
    return megatron_options(plan, layout);
  }
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  if (fsdp2 == nullptr) return ddp_options(plan, layout);
  DataParallelOptions options =
      fsdp2_options(*fsdp2, layout, tensor::parse_dtype(plan.model.dtype));
  // On a CPU, prefetching overlaps with no computation, so prefetching is off unless the plan sets
  // enable_fsdp2_prefetch. The condition reads the device instead of the plan's backend, because a
  // plan need not name a backend.
  if (device.is_cpu() && !fsdp2->enable_fsdp2_prefetch) options.prefetch = {};
  return options;
}

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

}  // namespace am::parallel
