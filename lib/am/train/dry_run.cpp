#include "am/train/dry_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "am/checkpoint/background_saver.h"
#include "am/optim/from_plan.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/tensor/meta_operators.h"
#include "am/train/saved_states.h"
#include "am/train/step.h"

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

// Batches of the plan's sizes without contents.
class MetaBatches : public BatchSource {
 public:
  explicit MetaBatches(const config::Plan& plan) : plan_(plan) {}

  MicroBatch read(int64_t /*step*/, int64_t /*micro_batch*/) override {
    MicroBatch batch;
    batch.ids_BT = at::empty({plan_.train.micro_batch_size, plan_.train.seq_len},
                             at::TensorOptions(at::kLong).device(at::kMeta));
    batch.labels_BT = at::empty_like(batch.ids_BT);
    return batch;
  }

 private:
  const config::Plan& plan_;
};

// What is alive when a phase is over.
class PhaseMemories : public StepObserver {
 public:
  PhaseMemories(const tensor::MemoryMeter& meter, std::vector<PhaseMemory>& phases)
      : meter_(meter), phases_(phases) {}

  void phase_over(const char* phase) override { phases_.push_back({phase, meter_.live().total()}); }

 private:
  const tensor::MemoryMeter& meter_;
  std::vector<PhaseMemory>& phases_;
};

}  // namespace

DryRun dry_run(const planner::Job& job, int64_t rank) {
  const config::Plan& plan = job.plan;
  const auto start = std::chrono::steady_clock::now();
  tensor::register_meta_operators();
  DryRun report;
  report.rank = rank;
  const auto world = runtime::World::pretended(rank, job.layout.mesh.world_size());
  world.context()->on_collective = [&](const runtime::Collective& collective, int64_t bytes) {
    count(report.collectives, collective, bytes);
  };
  const tensor::MemoryMeter meter;
  const runtime::DeviceMesh mesh(world, job.layout.mesh, c10::Device(c10::kMeta));
  const auto model = parallel::ParallelModel::build(plan, job.model, job.layout, mesh);
  const auto optimizer = optim::make_optimizer(plan, *model);
  at::Tensor staging;
  if (plan.checkpoint.async) {
    const bool on_host = runtime::parse_backend(parallel::backend_of(plan)).cuda.empty();
    checkpoint::SavedState state;
    state.states = saved_states(*optimizer, *model);
    state.optimizer = checkpoint::SavedOptimizer{plan.optimizer, plan.optimizer.lr};
    staging = checkpoint::allocate_staging(*model, state, on_host);
  }
  MetaBatches batches(plan);
  PhaseMemories observer(meter, report.phases);
  Step step(plan, *model, *optimizer, observer);
  for (const int64_t index : {0, 1}) {
    // Gradients stay from step to step, so the second one is full from its start.
    report.collectives.clear();
    report.phases.clear();
    step.update(step.backward(batches, index), /*loss_scale=*/1.0, plan.optimizer.lr);
  }
  report.peak = meter.peak();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.seconds = took.count();
  return report;
}

}  // namespace am::train
