// Plans and models for tests that run ranks in this process.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"

namespace am::test {

// Returns the path of tests/data/NAME.
std::string data_path(const std::string& name);

// Returns the names of the small models in tests/data/hf that have reference values of transformers
// (reference.safetensors), except those in `without`, in alphabetical order.
std::vector<std::string> reference_models(const std::set<std::string>& without = {});

// A layout to test: name, number of ranks, and the sections that it adds to a test's base plan.
struct LayoutCase {
  std::string name;
  int64_t ranks;
  std::string toml;  // text of the sections [mesh] and [strategy]
};

// A line of [strategy] that makes every dtype float32.
inline const std::string kFullPrecision =
    "mp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", output_dtype = "
    "\"float32\" }\n";

// Returns the sections [mesh] and [strategy] of fsdp2 in float32. `mesh` and `strategy` are
// additional lines of these sections.
std::string float32_fsdp2(int64_t world, const std::string& mesh = {},
                          const std::string& strategy = {});

// Parses the text of a plan and checks the rules. Throws if the plan has an error.
config::Plan parse(const std::string& toml);

// Returns whether am-run can run the plan on this number of ranks (layout/runs.h). Throws if the
// plan, or its mesh of this size, has an error.
bool runs(const std::string& toml, int64_t ranks);

// The model of a plan on one rank of a world, with the objects that the model refers to.
struct RankModel {
  // `device`: device of the rank's tensors; by default the device of `world`.
  RankModel(const config::Plan& plan, const runtime::World& world,
            std::optional<c10::Device> device = std::nullopt);

  model::ModelConfig config;
  layout::Layout layout;
  runtime::DeviceMesh mesh;
  std::unique_ptr<parallel::ParallelModel> model;
};

// Returns max |a - b| / max |b|.
double relative_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace am::test
