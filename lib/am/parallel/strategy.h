// A strategy turns a decoder written for one device into this rank's part of a decoder on a mesh.
// The strategies "fsdp2", "megatron_fsdp", "ddp" and "megatron" are built in; programs register
// further strategies by name.
//
//   Parallelized never_freed(const StrategyInput& input) {
//     Parallelized made;
//     made.vocabulary_slice = prepare_decoder(input);
//     DataParallelOptions options;  // float32 by default
//     options.reshard_after_forward.assign(input.layout.units.size(), false);
//     made.data_parallel = apply_fsdp_sharding_recursively(input, std::move(options));
//     return made;
//   }
//
//   register_parallel_strategy("never_freed", never_freed);
//   auto model = ParallelModel::build(plan, config, layout, mesh, "never_freed");
//
// NeMo AutoModel's decorator register_parallel_strategy registers one strategy for each model
// class. In automesh, the caller selects the strategy by its name. A plan file cannot name a
// registered strategy: am-plan predicts time and memory from the plan file alone, which does not
// contain the strategy's code.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/config/strategy_config.h"
#include "am/layout/layout.h"
#include "am/mesh/shard.h"
#include "am/nn/decoder.h"
#include "am/parallel/data_parallel.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// Input of a strategy. The decoder, the layout and the mesh must outlive the strategy's result.
struct StrategyInput {
  nn::Decoder& decoder;  // the decoder, whose parameters have no values yet
  const config::Plan& plan;
  const layout::Layout& layout;
  const runtime::DeviceMesh& mesh;
};

struct Parallelized {
  std::unique_ptr<DataParallel> data_parallel;  // the strategy's data parallelism; never null
  mesh::Extent vocabulary_slice;  // slice of the vocabulary that this rank's logits cover
  // Dtype to which logits are converted; absent: logits keep their dtype.
  std::optional<at::ScalarType> output_dtype;
};

// A strategy as a function. Collective: every rank of the mesh calls it for the same model.
using ParallelStrategy = std::function<Parallelized(const StrategyInput& input)>;

// Registers a strategy for the whole process. Thread-safe. Throws Error(kUsage) if the name or the
// function is empty, if a strategy with this name is registered or built in, or if the name has the
// form of a plugin's name ("libmine.so:symbol").
void register_parallel_strategy(const std::string& name, ParallelStrategy strategy);
// Returns "fsdp2", "megatron_fsdp", "ddp", "megatron", then the registered names.
std::vector<std::string> parallel_strategy_names();
// Returns a strategy by its name. For a name such as "libmine.so:symbol", loads the library
// libmine.so and calls the library's function `symbol`, which must return a StrategyPlugin. Throws
// Error(kUsage) if the name is unknown (the error lists all names), Error(kIo) if the library or
// the symbol is missing, and Error(kRuntime) if the function returns no strategy or was built for
// another version of automesh.
ParallelStrategy find_parallel_strategy(const std::string& name);

// A plugin's strategy. A plugin is a library that links libautomesh and exports a function that
// returns a pointer to a StrategyPlugin:
//
//   extern "C" const am::parallel::StrategyPlugin* mine() {
//     static constexpr am::parallel::StrategyPlugin plugin = {AM_VERSION, my_strategy};
//     return &plugin;
//   }
struct StrategyPlugin {
  const char* version;  // AM_VERSION of the plugin's build
  Parallelized (*parallelize)(const StrategyInput& input);
};

// Applies the tensor, context and expert parallelism of the layout and the plan, then the plan's
// activation checkpointing, in AutoModel's order. Also sets up FP8, the adapters' dropout and the
// embedding noise (NEFTune). Returns this rank's slice of the vocabulary. Every strategy calls
// prepare_decoder() first.
mesh::Extent prepare_decoder(const StrategyInput& input);

// Returns data parallelism for the decoder, after setting the decoder's hooks to the returned
// object. Without options.buckets, parameters are gathered and gradients are reduced unit by unit:
// one unit per decoder layer, one for the embedding, one for the head, and the root unit with the
// final norm and all other parameters (model::shard_units). If options.reshard_after_forward is
// empty, the default of the strategy "fsdp2" applies: the last layer, the head and the root keep
// their full parameters after forward, because backward needs them first. In a pipeline, this
// default keeps the full parameters of all units.
//
// AutoModel's function of this name makes a unit of each element of a ModuleList; the last element
// keeps its full parameters after forward. In AutoModel, the embedding and the head stay in the
// root unit, and the root's single reduction needs a buffer for both tables. In automesh, the
// embedding and the head are separate units.
std::unique_ptr<DataParallel> apply_fsdp_sharding_recursively(const StrategyInput& input,
                                                              DataParallelOptions options);

// Returns the options of the plan's strategy, for a model that computes on `device`.
DataParallelOptions data_parallel_options(const config::Plan& plan, const layout::Layout& layout,
                                          c10::Device device);

// Returns the options of the strategy "fsdp2". By default, the full parameters of every unit are
// freed after forward, except those of the last layer, the head and the root, which backward needs
// first; in a pipeline, no unit is freed after forward. An explicit reshard_after_forward applies
// to every unit except the root. `storage_dtype`: dtype of the stored shards.
DataParallelOptions fsdp2_options(const config::FSDP2Config& config, const layout::Layout& layout,
                                  at::ScalarType storage_dtype);

}  // namespace am::parallel
