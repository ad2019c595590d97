// A scaled-down job (also called proxy): a small model on a small mesh, for testing the layout of a
// plan. Its parameters and computation are sharded as in the job, over fewer ranks.
//
//   const auto proxy = scaled_down(job.plan, job.model, job.layout.mesh.sizes(), found);
//   if (proxy) write_file_atomically("proxy.toml", config::to_short_toml(proxy->plan));
//
// The proxy keeps the model family, kinds of layers, grouped queries (several query heads per key
// head), expert groups, tied weights, attention windows, adapters, the strategy with its keys, the
// pipeline schedule, activation checkpointing and gradient accumulation. Widths, vocabulary,
// sequence length, number of layers and mesh axes are reduced. The split points of the pipeline and
// the layers for multi-token prediction are left out. If the plan's mesh does not evenly
// divide the key heads, the vocabulary, the layers or the sequence, then the proxy's mesh does not
// evenly divide the reduced number either.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"

namespace am::job {

// Returns a plan whose job needs no weights and no data: random initial weights, synthetic data
// (packed if the plan packs its data) and no validation. [checkpoint] and [metrics] have their
// defaults, except checkpoint.resume = "none". Only train.max_steps limits this job. All other keys
// are copied from `plan`.
config::Plan without_files(config::Plan plan);

struct ScaledDownJob {
  struct Change {
    std::string key;  // for example "mesh.tp_size", "hidden_size", "experts"
    int64_t from = 0;
    int64_t to = 0;
  };

  config::Plan plan;
  model::ModelConfig model;
  mesh::MeshSizes mesh;
  // Sizes that differ from those of the plan or of its model. Change::from is 0 for
  // train.global_batch_size and pipeline.microbatches if the plan does not set these keys.
  std::vector<Change> changes;
};

// Returns the proxy of a plan that has passed the rules. `sizes`: the sizes of the plan's mesh. If
// the proxy violates a rule, returns nullopt and adds the proxy's errors to `found`.
std::optional<ScaledDownJob> scaled_down(const config::Plan& plan, const model::ModelConfig& model,
                                         const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::job
