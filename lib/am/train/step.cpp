#include "am/train/step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "am/nn/fused/device.h"
#include "am/optim/clip.h"
#include "am/runtime/device_error.h"
#include "am/runtime/trace_range.h"
#include "am/train/expert_balance.h"

namespace am::train {

namespace {

// Indices into the message by which the ranks exchange the numbers of a step. The memory peaks of
// the ranks begin at index kPeaks.
enum : int64_t { kLoss, kSquaredNorm, kStop, kSave, kVisit, kCompare, kPeaks };

constexpr int64_t kTimes = 4;  // number of elements for the times of a rank

void write_times(const observe::RankTimes& times, double* values) {
  values[0] = times.compute;
  values[1] = times.data;
  values[2] = times.saving;
  values[3] = times.waiting;
}

observe::RankTimes read_times(const double* values) {
  return {values[0], values[1], values[2], values[3]};
}

bool balances_sequences(const config::Plan& plan) { return plan.experts.balancing == "sequence"; }

}  // namespace

Step::Step(const config::Plan& plan, parallel::ParallelModel& model, optim::Optimizer& optimizer,
           StepObserver& observer)
    : plan_(plan),
      model_(model),
      optimizer_(optimizer),
      observer_(observer),
      sizes_(batch_sizes(plan, model.layout().mesh.sizes())) {}

StepNumbers Step::backward(BatchSource& batches, int64_t step, double loss_scale) {
  model_.zero_grad();
  model_.take_expert_counts();  // drops the counts of passes before this step
  model_.take_balance();
  if (balances_sequences(plan_)) model_.set_balance_factor(balance_factor() * loss_scale);
  BatchesOfSteps of_step(batches, step, /*steps=*/1, sizes_.micro_batches);
  parallel::PassOptions options;
  const int64_t labels = batches.labels(step);
  options.divisor = static_cast<double>(labels) / loss_scale;
  options.seed = static_cast<uint64_t>(plan_.train.seed);
  options.step = step;
  options.phase_over = [this](const char* phase) { observer_.phase_over(phase); };
  const at::Tensor loss_sum = model_.forward_backward(of_step, options);
  model_.set_balance_factor(0.0);
  StepNumbers numbers = share(loss_sum);
  numbers.labels = labels;
  return numbers;
}

// Returns the factor of each sequence's auxiliary loss. With this factor, the sum over all
// sequences is the mean over the global batch, multiplied by experts.coefficient.
double Step::balance_factor() const {
  return plan_.experts.coefficient / static_cast<double>(sizes_.global_batch);
}

// Exchanges the step's numbers, including the tokens per expert, by one all-reduce that sums a
// message over all ranks. The message has separate elements for the memory peaks of each rank, from
// which every rank computes the maximum: 8 bytes per rank, or 16 on GPUs (256 KiB for 16,384
// ranks). With tree algorithms, the longer message costs less than a second all-reduce.
StepNumbers Step::share(const at::Tensor& own_loss_sum) {
  const runtime::TraceRange range([] { return "loss and gradient norm"; });
  const runtime::DeviceMesh& mesh = model_.mesh();
  const StepReport mine = observer_.report();
  const std::vector<int64_t> taken = model_.take_expert_counts();
  const int64_t world = mesh.layout().world_size();
  const int64_t reserved = kPeaks + world;
  const bool reserves = !mesh.device().is_cpu() && !mesh.device().is_meta();
  const int64_t counts = reserved + (reserves ? world : 0);
  const int64_t balance = counts + static_cast<int64_t>(taken.size());
  const int64_t times = balance + (balances_sequences(plan_) ? 1 : 0);
  const bool compares = std::exchange(compares_, false);
  at::Tensor message = at::zeros({times + (compares ? kTimes * world : 0)}, at::kDouble);
  auto* values = message.mutable_data_ptr<double>();
  values[kStop] = mine.stop ? 1.0 : 0.0;
  values[kSave] = mine.save ? 1.0 : 0.0;
  values[kVisit] = mine.visit ? 1.0 : 0.0;
  values[kCompare] = mine.compare ? 1.0 : 0.0;
  if (compares) write_times(mine.times, values + times + kTimes * mesh.rank());
  values[kPeaks + mesh.rank()] = static_cast<double>(mine.peak_memory_bytes);
  if (reserves) values[reserved + mesh.rank()] = static_cast<double>(mine.peak_reserved_bytes);
  std::copy(taken.begin(), taken.end(), values + counts);
  message = nn::fused::uploaded(message, mesh.device());
  // All ranks of a tp group have the same loss, so only the first rank of the group adds the loss.
  if (mesh.group("tp").index() == 0) message.narrow(0, kLoss, 1).copy_(own_loss_sum);
  if (const at::Tensor own = model_.take_balance(); own.defined()) {
    message.narrow(0, balance, 1).copy_(own);
  }
  message.narrow(0, kSquaredNorm, 1).copy_(optim::squared_norm(optim::gradient_shards(model_)));
  mesh.group("world").all_reduce(message);

  StepNumbers numbers;
  numbers.own_loss_sum = own_loss_sum;
  if (message.is_meta()) {
    numbers.grad_norm = 2.0 * plan_.train.max_grad_norm;
    return numbers;
  }
  const auto start = runtime::Progress::Clock::now();
  message = message.cpu();
  // On a GPU, the host waits for the slowest rank in the copy above, not in the collectives.
  if (const auto& world_group = mesh.group("world").communicator(); reserves && world_group) {
    world_group->context->progress.add_waited(runtime::Progress::Clock::now() - start);
  }
  values = message.mutable_data_ptr<double>();
  numbers.loss_sum = values[kLoss];
  numbers.grad_norm = std::sqrt(values[kSquaredNorm]);
  numbers.of_any_rank.stop = values[kStop] > 0.0;
  numbers.of_any_rank.save = values[kSave] > 0.0;
  numbers.of_any_rank.visit = values[kVisit] > 0.0;
  compares_ = values[kCompare] > 0.0;
  for (int64_t rank = 0; compares && rank < world; ++rank) {
    numbers.times.push_back(read_times(values + times + kTimes * rank));
  }
  const auto largest = [&](int64_t first) {
    return static_cast<int64_t>(*std::max_element(values + first, values + first + world));
  };
  numbers.of_any_rank.peak_memory_bytes = largest(kPeaks);
  if (reserves) numbers.of_any_rank.peak_reserved_bytes = largest(reserved);
  if (!taken.empty()) {
    numbers.expert_counts.assign(values + counts, values + balance);
    numbers.expert_load = observe::expert_load(numbers.expert_counts,
                                               static_cast<size_t>(model_.config().moe->experts));
  }
  if (balances_sequences(plan_)) numbers.aux_loss = values[balance] * balance_factor();
  return numbers;
}

void Step::update(const StepNumbers& numbers, double loss_scale, double learning_rate) {
  const runtime::TraceRange range([] { return "optimizer"; });
  const double factor =
      optim::clip_factor(numbers.grad_norm / loss_scale, plan_.train.max_grad_norm) / loss_scale;
  runtime::with_place(
      model_.mesh().device(), [] { return "the optimizer's update"; },
      [&] { optimizer_.step(trained_gradients(model_), learning_rate, factor); });
  if (plan_.experts.balancing == "bias" && !numbers.expert_counts.empty()) {
    move_correction_biases(model_, numbers.expert_counts, plan_.experts.rate);
  }
  observer_.phase_over("optimizer");
}

}  // namespace am::train
