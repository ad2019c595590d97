#include "am/parallel/strategy.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include "am/base/error.h"
#include "am/base/shared_library.h"
#include "am/base/text.h"
#include "am/layout/units.h"
#include "am/parallel/cp/context_parallel.h"
#include "am/parallel/ddp/ddp.h"
#include "am/parallel/ep/expert_parallel.h"
#include "am/parallel/fsdp2/fsdp2.h"
#include "am/parallel/megatron_fsdp/megatron_fsdp.h"
#include "am/parallel/tp/tensor_parallel.h"

namespace am::parallel {

namespace {

struct Named {
  std::string name;
  ParallelStrategy strategy;
};

struct Registry {
  std::mutex mutex;
  std::vector<Named> strategies = {{"fsdp2", parallelize_fsdp2},
                                   {"megatron_fsdp", parallelize_megatron_fsdp},
                                   {"ddp", parallelize_ddp}};

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
                cat(name, " is of automesh ", plugin->version, ", this is automesh ", AM_VERSION),
                "build the library against this automesh");
  }
  return plugin->parallelize;
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
    throw Error(ErrorKind::kUsage,
                cat("\"", name, "\" cannot be a strategy's name: it is that of a plugin"),
                "find_parallel_strategy loads plugins without being told");
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
  input.decoder.set_adapter_dropout(input.plan.lora.dropout, input.mesh.group("tp").index());
  const mesh::Extent slice = tp::apply_tensor_parallel(input.decoder, input.layout, input.mesh);
  cp::apply_context_parallel(input.decoder, input.plan, input.layout, input.mesh);
  ep::apply_expert_parallel(input.decoder, input.mesh);
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
  return DataParallel::make(input.decoder, input.layout, input.mesh, std::move(options));
}

}  // namespace am::parallel
