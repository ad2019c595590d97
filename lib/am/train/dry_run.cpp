#include "am/train/dry_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "am/optim/adamw.h"
#include "am/optim/clip.h"
#include "am/parallel/parallel_model.h"
#include "am/parallel/sync_ctx.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/tensor/meta_operators.h"
#include "am/train/setup.h"

namespace am::train {

namespace {

void count(std::vector<CollectiveCount>& counts, const runtime::Collective& collective,
           int64_t bytes) {
  const auto same = [&](const CollectiveCount& each) {
    return each.op == collective.op && each.group == collective.group;
  };
  auto found = std::find_if(counts.begin(), counts.end(), same);
  if (found == counts.end()) {
    found = counts.insert(counts.end(), {collective.op, collective.group});
  }
  found->bytes += bytes;
  ++found->count;
}

class Step {
 public:
  Step(const config::Plan& plan, const model::ModelConfig& config, const runtime::World& world)
      : plan_(plan),
        layout_(make_layout(plan, config, world.size())),
        mesh_(world, layout_.mesh, c10::Device(c10::kMeta)),
        model_(parallel::ParallelModel::build(plan, config, layout_, mesh_)),
        optimizer_(trained_parameters(*model_), optimizer_options(plan, *model_)) {}

  // `over` is told of each phase that ends.
  void run(const std::function<void(const char* phase)>& over) {
    model_->data_parallel().zero_grad();
    const BatchSizes sizes = batch_sizes(plan_, layout_.mesh.sizes());
    for (int64_t m = 0; m < sizes.micro_batches; ++m) {
      const bool last = m + 1 == sizes.micro_batches;
      const at::Tensor loss = forward();
      if (last) over("forward");
      backward(loss, last);
      if (last) over("backward");
    }
    at::Tensor loss = at::empty({1}, at::TensorOptions(at::kDouble).device(at::kMeta));
    mesh_.group("dp_cp").all_reduce(loss);
    clip();
    optimizer_.step(trained_gradients(*model_), plan_.optimizer.lr);
    over("optimizer");
  }

 private:
  at::Tensor forward() {
    const auto on_meta = at::TensorOptions(at::kLong).device(at::kMeta);
    const at::Tensor ids_BT =
        at::empty({plan_.train.micro_batch_size, plan_.train.seq_len}, on_meta);
    return model_->loss_sum(model_->forward(ids_BT), at::empty_like(ids_BT));
  }

  void backward(const at::Tensor& loss, bool last) {
    auto& data_parallel = model_->data_parallel();
    const auto sync = parallel::get_sync_ctx(data_parallel, plan_.strategy, last,
                                             config::defers_gradient_sync(plan_.strategy));
    (loss / 1.0).backward();
    data_parallel.finish_backward();
  }

  void clip() {
    optim::squared_norm(gradient_shards(*model_), mesh_.group("world"));
    if (plan_.train.max_grad_norm <= 0.0) return;
    for (const at::Tensor& gradient : trained_gradients(*model_)) gradient.mul_(0.5);
  }

  const config::Plan& plan_;
  planner::Layout layout_;
  runtime::DeviceMesh mesh_;
  std::unique_ptr<parallel::ParallelModel> model_;
  optim::AdamW optimizer_;
};

}  // namespace

DryRun dry_run(const config::Plan& plan, const model::ModelConfig& config, int64_t world_size,
               int64_t rank) {
  const auto start = std::chrono::steady_clock::now();
  tensor::register_meta_operators();
  DryRun report;
  report.rank = rank;
  const auto world = runtime::World::pretended(rank, world_size);
  world.context()->on_collective = [&](const runtime::Collective& collective, int64_t bytes) {
    count(report.collectives, collective, bytes);
  };
  const tensor::MemoryMeter meter;
  Step step(plan, config, world);
  step.run([](const char* /*phase*/) {});
  report.collectives.clear();
  const auto note = [&](const char* phase) {
    report.phases.push_back({phase, meter.live().total()});
  };
  step.run(note);  // gradients stay from step to step, so the second one is full from its start
  report.peak = meter.peak();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  return report;
}

}  // namespace am::train
