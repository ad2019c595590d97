#include "am/train/dry_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "am/checkpoint/background_saver.h"
#include "am/config/batch.h"
#include "am/launch/supervise/wall_time.h"
#include "am/optim/from_plan.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/tensor/meta_operators.h"
#include "am/train/saved_states.h"
#include "am/train/step.h"

namespace am::train {

namespace {

// Provides meta tensors with the shapes of the plan's micro-batches.
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
  int64_t labels(int64_t /*step*/) override {
    return plan_.train.global_batch_size * plan_.train.seq_len;
  }

 private:
  const config::Plan& plan_;
};

// Records the bytes of the tensors that exist at the end of each phase of a step.
class PhaseMemories : public StepObserver {
 public:
  PhaseMemories(const tensor::MemoryMeter& meter, std::vector<PhaseMemory>& phases)
      : meter_(meter), phases_(phases) {}

  void phase_over(const char* phase) override { phases_.push_back({phase, meter_.live().total()}); }

 private:
  const tensor::MemoryMeter& meter_;
  std::vector<PhaseMemory>& phases_;
};

// Returns the plan with a global batch of `rounds` rounds. A round is one micro-batch on each
// data-parallel rank or, with a pipeline, one run of the schedule.
config::Plan with_rounds(const config::Plan& plan, const config::BatchShape& batch,
                         int64_t rounds) {
  config::Plan shorter = plan;
  shorter.train.global_batch_size = batch.one_each * batch.in_round * rounds;
  return shorter;
}

// Returns value + times * (value - before), saturated at the largest int64.
int64_t continued(int64_t value, int64_t before, int64_t times) {
  int64_t more = 0;
  int64_t sum = 0;
  const bool fits = !__builtin_mul_overflow(value - before, times, &more) &&
                    !__builtin_add_overflow(value, more, &sum);
  return fits ? sum : std::numeric_limits<int64_t>::max();
}

// Adds the messages of `times` more rounds to `all`, the counts of a step. `fewer` contains the
// counts of a step with one round fewer, so the difference between `all` and `fewer` is the
// messages of one round.
void continue_rounds(std::vector<CollectiveCount>& all, const std::vector<CollectiveCount>& fewer,
                     int64_t times) {
  for (CollectiveCount& each : all) {
    const auto same = std::find_if(fewer.begin(), fewer.end(), [&](const CollectiveCount& other) {
      return other.op == each.op && other.group == each.group;
    });
    const CollectiveCount before = same == fewer.end() ? CollectiveCount{} : *same;
    each.bytes = continued(each.bytes, before.bytes, times);
    each.count = continued(each.count, before.count, times);
  }
}

}  // namespace

DryRun dry_run(const job::Job& job, int64_t rank, int64_t walked) {
  const config::Plan& plan = job.plan;
  const auto start = std::chrono::steady_clock::now();
  tensor::register_meta_operators();
  DryRun report;
  report.rank = rank;
  const auto world = runtime::World::fake(rank, job.layout.mesh.world_size());
  world.context()->on_collective = [&](const runtime::Collective& collective, int64_t bytes) {
    runtime::count_collective(report.collectives, collective, bytes);
  };
  const tensor::MemoryMeter meter;
  const runtime::DeviceMesh mesh(world, job.layout.mesh, c10::Device(c10::kMeta));
  const auto model = parallel::ParallelModel::build(plan, job.model, job.layout, mesh);
  const auto optimizer = optim::make_optimizer(plan, *model);
  at::Tensor staging;
  if (plan.checkpoint.async) {
    const bool on_host = !runtime::parse_backend(parallel::backend_of(plan)).serves_gpus();
    checkpoint::SavedState state;
    state.states = saved_states(*optimizer, *model);
    state.optimizer = checkpoint::SavedOptimizer{plan.optimizer, plan.optimizer.lr};
    staging = checkpoint::allocate_staging(*model, state, on_host);
  }
  MetaBatches batches(plan);
  PhaseMemories observer(meter, report.phases);
  const auto take_step = [&](const config::Plan& of_step, int64_t index) {
    report.collectives.clear();
    report.phases.clear();
    Step step(of_step, *model, *optimizer, observer);
    step.update(step.backward(batches, index), /*loss_scale=*/1.0, plan.optimizer.lr);
  };
  const config::BatchShape batch = config::batch_shape(plan, job.layout.mesh.sizes().dp());
  const int64_t rounds = std::max<int64_t>(1, batch.micro_batches / batch.in_round);
  const int64_t taken = std::min(rounds, std::max(walked, kWalkedRounds));
  // Runs one or two other steps first, because the reported step must begin with the tensors that
  // the step before leaves allocated.
  take_step(with_rounds(plan, batch, taken), 0);
  std::vector<CollectiveCount> fewer;
  if (taken < rounds) {
    take_step(with_rounds(plan, batch, taken - 1), 1);
    fewer = report.collectives;
  }
  take_step(with_rounds(plan, batch, taken), 2);
  continue_rounds(report.collectives, fewer, rounds - taken);
  report.peak = meter.peak();
  report.seconds = launch::seconds_since(start);
  return report;
}

}  // namespace am::train
