#include "support/train_curve.h"

#include <filesystem>

#include "am/train/trainer.h"

namespace am::test {

Curve train_curve(const config::Plan& plan, int64_t ranks) {
  const std::filesystem::path nowhere = std::filesystem::temp_directory_path() / "am-no-such-run";
  Curve curve;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                           run_folder::RunFolder(nowhere), {});
    for (int64_t step = 0; step < plan.train.max_steps; ++step) {
      const observe::StepMetrics metrics = trainer.train_step(step);
      if (world.rank() != 0) continue;
      curve.losses.push_back(metrics.loss);
      curve.norms.push_back(metrics.grad_norm);
      curve.lrs.push_back(metrics.lr);
    }
  });
  return curve;
}

}  // namespace am::test
