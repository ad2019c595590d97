// A small model and a small mesh on which a plan's layout can be tried out: everything that decides
// how work is cut is there, and little more.
//
//   const auto proxy = make_proxy(job.plan, job.model, job.layout.mesh.sizes(), found);
//   train::verify_layout(proxy->plan, proxy->model);
//
// Kept: family, kinds of layers, the relation of query and key heads, experts' groups, tied heads,
// windows, adapters, strategy and its keys, schedule, checkpointing, accumulation. Made small:
// widths, vocabulary, sequence, layers, axes. What does not divide evenly stays uneven.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"

namespace am::planner {

// Reads no file and writes none: initial weights, synthetic data (which may be packed), no
// validation, checkpoint or metrics.
config::Plan without_files(config::Plan plan);

struct Proxy {
  struct Change {
    std::string key;  // "mesh.tp_size", "hidden_size"
    int64_t from = 0;
    int64_t to = 0;
  };

  config::Plan plan;
  model::ModelConfig model;
  mesh::MeshSizes mesh;
  std::vector<Change> changes;  // of sizes; none: the job itself is small
};

// Of a plan that was checked, on `sizes`. Nothing where the rules refuse the small one, which
// `found` then says.
std::optional<Proxy> make_proxy(const config::Plan& plan, const model::ModelConfig& model,
                                const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::planner
