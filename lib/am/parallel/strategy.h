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
// NeMo AutoModel's decorator register_parallel_strategy keys strategies by the model's class, so
// that a model has only one strategy; here the caller names the strategy. A plan file cannot name a
// registered strategy, because am-plan predicts time and memory from the plan file and cannot do so
// for code in a library.
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
  mesh::Extent vocabulary_slice;  // this rank's slice of the vocabulary, which its logits cover
  // Dtype to which logits are converted; absent: logits keep their dtype.
  std::optional<at::ScalarType> output_dtype;
};

// A strategy as a function. Collective: every rank of the mesh calls it for the same model.
using ParallelStrategy = std::function<Parallelized(const StrategyInput& input)>;

// Registers a strategy for the whole process. Thread-safe. Throws Error(kUsage) if the name or the
// function is empty, if a strategy with this name is registered or built in, or if the name has the
// form of a plugin's ("libmine.so:symbol").
void register_parallel_strategy(const std::string& name, ParallelStrategy strategy);
// Returns "fsdp2", "megatron_fsdp", "ddp", "megatron", then the registered names.
std::vector<std::string> parallel_strategy_names();
// Returns a strategy by its name. A name such as "libmine.so:symbol" loads a library and calls its
// function `symbol`, which returns a StrategyPlugin. Throws Error(kUsage), which lists the names,
// if the name is unknown; Error(kIo) if the library or the symbol is missing; Error(kRuntime) if
// the function returns no strategy or was built for another version of automesh.
ParallelStrategy find_parallel_strategy(const std::string& name);

// Object that a plugin exports. A plugin is a library that contains a strategy and links
// libautomesh:
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
// embedding noise (NEFTune). Every strategy calls it first. Returns this rank's slice of the
// vocabulary.
mesh::Extent prepare_decoder(const StrategyInput& input);

// Returns data parallelism over the layout's units: one per decoder layer, one for the embedding,
// one for the head, and the root unit with the final norm and any other parameters
// (model::shard_units decides). If options.reshard_after_forward is empty, PyTorch's rule applies:
// the last layer, the head and the root keep their full parameters after forward, because backward
// needs them first. In a pipeline, all units then keep them.
//
// AutoModel's function of this name makes a unit of each element of a ModuleList; the last element
// keeps its full parameters after forward. Its embedding and head stay in the root unit, whose
// single reduction needs a buffer for both tables. Here embedding and head have a unit each.
std::unique_ptr<DataParallel> apply_fsdp_sharding_recursively(const StrategyInput& input,
                                                              DataParallelOptions options);

// Returns the options of the plan's strategy, for a model that computes on `device`.
DataParallelOptions data_parallel_options(const config::Plan& plan, const layout::Layout& layout,
                                          c10::Device device);

// Returns the options of the strategy "fsdp2". By default, every unit frees its full parameters
// after forward except the last layer, the head and the root, which backward needs first; in a
// pipeline, no unit does. An explicit reshard_after_forward holds for every unit but
// the root.
DataParallelOptions fsdp2_options(const config::FSDP2Config& config, const layout::Layout& layout,
                                  at::ScalarType storage_dtype);

}  // namespace am::parallel
