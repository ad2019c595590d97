#include "support/plans.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "am/base/text.h"
#include "am/job/job.h"
#include "am/layout/runs.h"
#include "am/rules/check.h"
#include "support/folders.h"

namespace am::test {

namespace {

// Throws an exception that lists all errors in `found`, so that a test with an invalid plan shows
// them.
void require_ok(const Diagnostics& found) {
  std::string all;
  for (const auto& item : found.items()) {
    if (item.severity == Severity::kError) all += cat(item.rule, ": ", item.message, "\n");
  }
  if (!all.empty()) throw std::runtime_error(all);
}

model::ModelConfig load_config(const config::Plan& plan) {
  Diagnostics found;
  auto config = model::load_config(plan.resolve(plan.model.path), found);
  require_ok(found);
  return *std::move(config);
}

}  // namespace

std::string data_path(const std::string& name) { return cat(kDataFolder, "/", name); }

std::vector<std::string> reference_models(const std::set<std::string>& without) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("hf"))) {
    const std::string name = entry.path().filename().string();
    const bool has_values = std::filesystem::exists(entry.path() / "reference.safetensors");
    if (has_values && !without.contains(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string float32_fsdp2(int64_t world, const std::string& mesh, const std::string& strategy) {
  return cat("[mesh]\nworld_size = ", world, "\n", mesh, "[strategy]\nname = \"fsdp2\"\n", strategy,
             kFullPrecision);
}

bool runs(const std::string& toml, int64_t ranks) {
  const config::Plan plan = parse(toml);
  Diagnostics found;
  layout::resolve_mesh(plan, ranks, found);
  require_ok(found);
  return layout::limits_of(plan, load_config(plan)).empty();
}

config::Plan parse(const std::string& toml) {
  Diagnostics found;
  auto plan = config::parse_plan(toml, data_path("plan.toml"), {}, found);
  require_ok(found);
  rules::check(*plan, 0, found);
  require_ok(found);
  return *std::move(plan);
}

RankModel::RankModel(const config::Plan& plan, const runtime::World& world,
                     std::optional<c10::Device> device)
    : config(load_config(plan)),
      layout(job::make_job(plan, config, world.size()).layout),
      mesh(world, layout.mesh, device),
      model(parallel::ParallelModel::build(plan, config, layout, mesh)) {}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  const double scale = wide.abs().max().item<double>();
  const double difference = (a.to(at::kDouble) - wide).abs().max().item<double>();
  return scale == 0.0 ? difference : difference / scale;
}

}  // namespace am::test
