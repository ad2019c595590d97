// A strategy turns a decoder that was written for one device into this rank's part of one that runs
// on a mesh. The three of a plan are built in; programs add their own by name.
//
//   Parallelized never_freed(const StrategyInput& input) {
//     Parallelized made;
//     made.vocabulary_slice = prepare_decoder(input);
//     DataParallelOptions options;  // all in float32
//     options.reshard_after_forward.assign(input.layout.units.size(), false);
//     made.data_parallel = apply_fsdp_sharding_recursively(input, std::move(options));
//     return made;
//   }
//   register_parallel_strategy("never_freed", never_freed);
//   auto model = ParallelModel::build(plan, config, layout, mesh, "never_freed");
//
// NeMo AutoModel's decorator of this name adds classes to a table that is asked by the model's
// class, so that a model can have one strategy; here the caller names the strategy. A plan file
// cannot: what am-plan predicts of a plan must be what runs, and nobody can predict a library.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/mesh/shard.h"
#include "am/nn/decoder.h"
#include "am/parallel/data_parallel.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// All of it outlives what the strategy makes, but for the plan.
struct StrategyInput {
  nn::Decoder& decoder;  // its parameters have no values yet
  const config::Plan& plan;
  const planner::Layout& layout;  // what every rank holds, units included
  const runtime::DeviceMesh& mesh;
};

struct Parallelized {
  std::unique_ptr<DataParallel> data_parallel;  // never null
  mesh::Extent vocabulary_slice;                // of the logits on this rank
  std::optional<at::ScalarType> output_dtype;   // of the logits; absent: as they come
};

// Collective when it is called: every rank of the mesh makes the same model.
using ParallelStrategy = std::function<Parallelized(const StrategyInput& input)>;

// For the whole process, from any thread. Throws Error(kUsage): no name, no function, or a name
// that is taken (the built-in ones are).
void register_parallel_strategy(const std::string& name, ParallelStrategy strategy);
// "fsdp2", "megatron_fsdp", "ddp", and then what was registered.
std::vector<std::string> parallel_strategy_names();
// By name, or "libmine.so:symbol" of a StrategyPlugin's function. Throws Error(kUsage) that lists
// the names, Error(kIo) where the library or the symbol is not there, Error(kRuntime) where it is
// of another automesh.
ParallelStrategy find_parallel_strategy(const std::string& name);

// What a library exports that holds a strategy; it links libautomesh:
//
//   extern "C" const am::parallel::StrategyPlugin* mine() {
//     static constexpr am::parallel::StrategyPlugin plugin = {AM_VERSION, my_strategy};
//     return &plugin;
//   }
struct StrategyPlugin {
  const char* version;  // AM_VERSION
  Parallelized (*parallelize)(const StrategyInput& input);
};

// What every strategy does first, in AutoModel's order: tensor, context and expert parallelism as
// the layout and the plan say, then the plan's activation checkpointing. Returns this rank's slice
// of the vocabulary.
mesh::Extent prepare_decoder(const StrategyInput& input);

// Every decoder layer is a unit, and so are the embedding and the head; the rest, which is the
// final norm, is the root unit (model::shard_units decides, and the layout holds its answer).
// Where options.reshard_after_forward is empty it follows PyTorch: the last layer, the head and the
// root keep their full parameters after forward, because backward needs them first.
//
// AutoModel's function of this name walks a module's children and makes a unit of each element of a
// ModuleList, the last of which keeps its parameters; embedding and head stay in the root, whose
// one reduction then needs a buffer of both tables. Here they never share one.
std::unique_ptr<DataParallel> apply_fsdp_sharding_recursively(const StrategyInput& input,
                                                              DataParallelOptions options);

}  // namespace am::parallel
