// A scaled-down job: a small model on a small mesh that tests a plan's layout. It keeps everything
// that determines how work is sharded.
//
//   const auto proxy = scaled_down(job.plan, job.model, job.layout.mesh.sizes(), found);
//   if (proxy) write_file_atomically("proxy.toml", config::to_short_toml(proxy->plan));
//
// Kept: family, kinds of layers, ratio of query to key heads, expert groups, tied heads, windows,
// adapters, strategy and its keys, schedule, checkpointing, accumulation. Reduced: widths,
// vocabulary, sequence, layers, axes. Sizes that do not divide evenly stay uneven.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"

namespace am::job {

// Returns a plan that reads and writes no files: random initial weights, synthetic data (packed if
// the plan's is), no validation, checkpoint or metrics.
config::Plan without_files(config::Plan plan);

struct ScaledDownJob {
  struct Change {
    std::string key;  // "mesh.tp_size", "hidden_size"
    int64_t from = 0;
    int64_t to = 0;
  };

  config::Plan plan;
  model::ModelConfig model;
  mesh::MeshSizes mesh;
  std::vector<Change> changes;  // changed sizes; empty: the job itself is small
};

// Returns the proxy of a checked plan on `sizes`. Returns nothing if the rules reject the small
// plan; `found` then has their errors.
std::optional<ScaledDownJob> scaled_down(const config::Plan& plan, const model::ModelConfig& model,
                                         const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::job
