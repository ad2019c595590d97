// A scaled-down job (also called proxy): a small model on a small mesh, with which a plan's layout
// is tested. It keeps everything that determines how parameters and computation are sharded.
//
//   const auto proxy = scaled_down(job.plan, job.model, job.layout.mesh.sizes(), found);
//   if (proxy) write_file_atomically("proxy.toml", config::to_short_toml(proxy->plan));
//
// The proxy keeps the model family, kinds of layers, ratio of query to key heads, expert groups,
// tied heads, attention windows, adapters, the strategy with its keys, the pipeline schedule,
// activation checkpointing and gradient accumulation. It reduces widths, vocabulary, sequence
// length, number of layers and sizes of mesh axes. A size that the plan's mesh does not divide
// evenly becomes one that the proxy's mesh does not divide evenly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"

namespace am::job {

// Returns the plan changed so that its job reads and writes no files: it has random initial
// weights, synthetic data (packed if the plan's data is), no validation, no checkpoints and no
// metrics.
config::Plan without_files(config::Plan plan);

struct ScaledDownJob {
  struct Change {
    std::string key;  // of the plan or of config.json, for example "mesh.tp_size", "hidden_size"
    int64_t from = 0;
    int64_t to = 0;
  };

  config::Plan plan;
  model::ModelConfig model;
  mesh::MeshSizes mesh;
  std::vector<Change> changes;  // the changed sizes; empty if the job itself is small
};

// Returns the proxy of a checked plan whose mesh has `sizes`. If the rules reject the proxy's plan,
// returns nullopt and adds their errors to `found`.
std::optional<ScaledDownJob> scaled_down(const config::Plan& plan, const model::ModelConfig& model,
                                         const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::job
