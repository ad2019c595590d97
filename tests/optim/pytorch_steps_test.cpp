// Compares parameters and optimizer states after four steps of every optimizer with PyTorch's, on
// the same gradients (tests/data/optimizers, made by scripts/fixtures/make_optimizer_fixtures.py).
// In some cases, parameters are excluded from weight decay.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/optim/from_plan.h"
#include "am/optim/muon.h"
#include "am/optim/newton_schulz.h"
#include "am/runtime/world.h"
#include "support/plans.h"

namespace am::optim {
namespace {

at::Tensor flat_of(const Json& values) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble).to(at::kFloat);
}

// The fixtures' parameters in one flat tensor, as in a parameter group.
struct Parameters {
  Parameters(const Json& steps, const config::OptimizerSection& section, const Json& no_decay) {
    std::vector<at::Tensor> values;
    int64_t offset = 0;
    for (const auto& [name, shape] : steps["shapes"].items()) {
      layout::ParameterLayout layout;
      layout.name = name;
      layout.shape = shape.get<Shape>();
      const bool decays = std::find(no_decay.begin(), no_decay.end(), name) == no_decay.end();
      layout.optimizer = {section.lr, decays ? section.weight_decay : 0.0};
      layout.orthogonalized = layout.shape.size() == 2;
      ranges.push_back({0, offset, numel(layout.shape)});
      offset = ranges.back().end();
      layouts.push_back(std::move(layout));
      values.push_back(flat_of(steps["begin"][name]));
    }
    flat = at::cat(values);
  }

  std::vector<layout::ParameterLayout> layouts;
  std::vector<FlatRange> ranges;  // one per parameter
  at::Tensor flat;
};

config::OptimizerSection section_of(const Json& keys) {
  std::string text = "[model]\npath = \"hf/llama\"\n[mesh]\nworld_size = 1\n[optimizer]\n";
  for (const auto& [key, value] : keys.items()) text += cat(key, " = ", value.dump(), "\n");
  return test::parse(text).optimizer;
}

std::unique_ptr<Optimizer> make(const config::OptimizerSection& section,
                                const Parameters& parameters, const runtime::DeviceMesh& mesh) {
  const bool muon = section.name == "muon";
  std::vector<ParameterRun> runs;
  MatrixUnit unit{{}, &mesh.group("dp_shard_cp")};
  for (size_t i = 0; i < parameters.layouts.size(); ++i) {
    const layout::ParameterLayout& layout = parameters.layouts[i];
    if (muon && layout.orthogonalized) {
      unit.matrices.push_back({&layout, parameters.ranges[i]});
    } else {
      runs.push_back({parameters.ranges[i], layout.optimizer});
    }
  }
  if (!muon)
    return std::make_unique<Elementwise>(std::vector{parameters.flat}, runs,
                                         elementwise_options(section, /*offloaded=*/false));
  MuonOptions options;
  options.momentum = config::momentum_of(section);
  options.nesterov = config::nesterov_of(section);
  options.match_rms_adamw = section.adjust_lr == "match_rms_adamw";
  options.rest = elementwise_options(section, /*offloaded=*/false);
  return std::make_unique<Muon>(std::vector{parameters.flat}, std::vector{unit}, runs, mesh,
                                options);
}

bool near(const at::Tensor& got, const Json& wanted) {
  return at::allclose(got, flat_of(wanted), /*rtol=*/1e-6, /*atol=*/1e-6);
}

}  // namespace

TEST_CASE("every optimizer steps as PyTorch's does") {
  const Json steps = Json::parse(read_file(test::data_path("optimizers/steps.json")));
  runtime::run_ranks(1, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({}));
    for (const Json& each : steps["cases"]) {
      INFO(each["plan"].dump() << " no_decay " << each["no_decay"].dump());
      const config::OptimizerSection section = section_of(each["plan"]);
      const Parameters parameters(steps, section, each["no_decay"]);
      const auto optimizer = make(section, parameters, mesh);
      for (size_t step = 0; step < steps["gradients"]["vector"].size(); ++step) {
        std::vector<at::Tensor> gradients;
        for (const auto& layout : parameters.layouts) {
          gradients.push_back(flat_of(steps["gradients"][layout.name][step]));
        }
        optimizer->step({at::cat(gradients)}, each["lr"].get<double>());
      }
      for (size_t i = 0; i < parameters.layouts.size(); ++i) {
        const layout::ParameterLayout& layout = parameters.layouts[i];
        const Json& after = each["after"][layout.name];
        INFO(layout.name);
        CHECK(near(parameters.ranges[i].of(parameters.flat), after["value"]));
        CHECK_FALSE(near(parameters.ranges[i].of(parameters.flat), steps["begin"][layout.name]));
        const auto states = optimizer->state_of(parameters.ranges[i]);
        const auto names = config::state_names(section, layout.orthogonalized);
        REQUIRE(states.size() == after.size() - 1);
        REQUIRE(states.size() == names.size());
        for (size_t s = 0; s < states.size(); ++s) {
          CHECK(states[s].name == names[s]);
          CHECK(near(states[s].value, after[states[s].name]));
        }
      }
    }
  });
}

TEST_CASE("an orthogonal factor has singular values about 1, and the same singular vectors") {
  const at::Tensor matrix =
      at::randn({24, 10}, at::TensorOptions(at::kFloat)) + at::linspace(0, 3, 240).view({24, 10});
  const at::Tensor factor = orthogonal_factor(matrix.clone()).to(at::kFloat);
  const at::Tensor values = at::linalg_svdvals(factor);
  CHECK(values.min().item<double>() > 0.5);
  CHECK(values.max().item<double>() < 1.3);
  // If U S V^T is the matrix's singular value decomposition, U^T `factor` V is diagonal.
  const auto [u, s, v_t] = at::linalg_svd(matrix, /*full_matrices=*/false);
  const at::Tensor inside = u.t().mm(factor).mm(v_t.t());
  CHECK((inside - inside.diagonal().diag_embed()).abs().max().item<double>() < 0.1);
  // The factor of the transposed matrix is the transposed factor.
  const at::Tensor transposed = orthogonal_factor(matrix.t().contiguous());
  CHECK(at::allclose(transposed.t().to(at::kFloat), factor, 0.0, 2e-2));
}

}  // namespace am::optim
