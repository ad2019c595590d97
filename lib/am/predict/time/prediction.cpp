#include "am/predict/time/prediction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/model/flops.h"
#include "am/predict/time/evidence.h"

namespace am::predict {
namespace {

constexpr const char* kAssumedGpu = "h100-sxm";

double parameters_of(const Workload& workload) {
  double sum = workload.model.vocabulary * workload.model.hidden;
  for (const LayerGroup& group : workload.model.layers) {
    sum += group.count * model::layer_matmul_parameters(group.profile, workload.model.hidden);
  }
  return sum;
}

std::vector<NearestRun> nearest_runs(const MeasuredRuns& runs, const Workload& workload,
                                     const cluster::Gpu& gpu, const CostConstants& constants,
                                     int how_many) {
  std::vector<std::pair<double, const MeasuredRun*>> sorted;
  for (const MeasuredRun& run : runs) {
    if (run.test_job || !run.is_timed()) continue;
    sorted.emplace_back(distance(workload, gpu, run.workload, run.gpu), &run);
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->id < b.second->id;
  });
  std::vector<NearestRun> nearest;
  std::vector<std::string> layouts;  // MeasuredRun::group of each run in `nearest`
  for (const auto& [far, run] : sorted) {
    if (static_cast<int>(nearest.size()) >= how_many) break;
    if (std::find(layouts.begin(), layouts.end(), run->group) != layouts.end()) continue;
    layouts.push_back(run->group);
    nearest.push_back({*run, far, estimate_step_time(run->workload, run->gpu, constants).seconds});
  }
  return nearest;
}

bool is_in_range(const StepTime& time) {
  constexpr double kMost = 4.0e18;  // below the maximum of int64_t, with a margin
  const AxisBytes& bytes = time.bytes;
  for (const double value : {time.seconds, bytes.tp, bytes.cp, bytes.ep, bytes.pp, bytes.dp}) {
    if (!std::isfinite(value) || value > kMost) return false;
  }
  return true;
}

// Sets prediction.interval, and prediction.basis if measurements are missing. The errors of a
// calibration are valid only for runs like those to which the calibration was fitted. If the plan's
// calibration contains factors of the GPU, the errors of this calibration determine the interval.
// Otherwise those of the built-in calibration do, provided that a run on a GPU of this architecture
// was measured.
void set_interval(const MeasuredRuns& runs, Prediction& prediction) {
  const Workload& workload = prediction.workload;
  const Calibration& chosen = prediction.assumptions.calibration;
  const bool own_calibration = chosen.constants.gpus.contains(prediction.assumptions.gpu.name);
  const Calibration& calibration = own_calibration ? chosen : default_calibration();
  const bool fitted = calibration.constants.implementations.contains(workload.implementation->name);
  const std::string_view who = workload.implementation->name;
  const std::string& gpu = prediction.assumptions.gpu.name;
  const double seconds = prediction.time.seconds;
  const auto set = [&](double spread) {
    prediction.interval = Interval{seconds * std::exp(-spread), seconds * std::exp(spread)};
  };
  const std::vector<std::string> kinds = kinds_of(workload, prediction.assumptions.gpu);
  bool known = own_calibration || fitted;
  if (!own_calibration) {
    const Evidence evidence = timed_evidence(runs, workload, prediction.assumptions.gpu);
    known = fitted && evidence.of_this > 0;
    if (evidence.of_architecture == 0) {
      prediction.basis = cat("No run on a GPU of the architecture of ", gpu,
                             " was measured: the error of this prediction is not known");
      return;
    }
    if (evidence.on_gpu == 0) {
      prediction.basis = cat("No run of ", kind_of_model(workload), " on ", gpu,
                             " was measured: the interval is as wide as the errors on runs that "
                             "the time model was not fitted to, on other GPUs or of other sources");
      return set(
          std::max(calibration.errors_of_gpus.of(kinds), calibration.errors_of_sources.of(kinds)));
    }
    if (!known && evidence.of_implementation > 0) {
      prediction.basis = cat("No run of ", who, " with ", kind_of_model(workload), " on ", gpu,
                             " was measured: the interval is as wide as the errors on published "
                             "runs that the time model was not fitted to");
    }
  }
  if (!known && prediction.basis.empty()) {
    prediction.basis = cat("No run of ", who,
                           " was measured: the interval is as wide as the errors on published "
                           "runs that the time model was not fitted to");
  }
  set(own_calibration ? calibration.time_90
      : known         ? calibration.errors_of_layouts.of(kinds)
                      : calibration.errors_of_sources.of(kinds));
}

}  // namespace

std::optional<cluster::Gpu> gpu_of(const config::Plan& plan, Diagnostics& found) {
  const std::string name = plan.cluster.gpu.empty() ? kAssumedGpu : plan.cluster.gpu;
  return cluster::find_gpu(name, plan.resolve("."), plan.span("cluster.gpu"), found);
}

std::optional<Assumptions> assumptions_of(const config::Plan& plan, Diagnostics& found) {
  Assumptions assumptions;
  assumptions.gpu_is_assumed = plan.cluster.gpu.empty();
  auto gpu = gpu_of(plan, found);
  if (plan.cluster.calibration.empty()) {
    assumptions.calibration = default_calibration();
  } else {
    auto calibration = load_calibration(plan.resolve(plan.cluster.calibration),
                                        plan.span("cluster.calibration"), found);
    if (!calibration) return std::nullopt;
    assumptions.calibration = *std::move(calibration);
  }
  if (!gpu) return std::nullopt;
  assumptions.gpu = *std::move(gpu);
  return assumptions;
}

ComputeFormat peak_format(ComputeFormat format, const cluster::Gpu& gpu) {
  const ComputeFormat half = gpu.has_bfloat16() ? ComputeFormat::kBf16 : ComputeFormat::kFp16;
  switch (format) {
    case ComputeFormat::kFp32:
      return gpu.fp32_flops > 0.0 ? ComputeFormat::kFp32 : half;
    case ComputeFormat::kFp16:
      return ComputeFormat::kFp16;
    case ComputeFormat::kFp8:
      return gpu.fp8_flops > 0.0 ? ComputeFormat::kFp8 : half;
    case ComputeFormat::kFp4:
      return gpu.fp4_flops > 0.0 ? ComputeFormat::kFp4 : half;
    case ComputeFormat::kBf16:
      return half;
  }
  return half;
}

double peak_flops(ComputeFormat format, const cluster::Gpu& gpu) {
  switch (peak_format(format, gpu)) {
    case ComputeFormat::kFp32:
      return gpu.fp32_flops;
    case ComputeFormat::kFp8:
      return gpu.fp8_flops;
    case ComputeFormat::kFp4:
      return gpu.fp4_flops;
    default:
      return gpu.bf16_flops;
  }
}

double distance(const Workload& a, const cluster::Gpu& gpu_a, const Workload& b,
                const cluster::Gpu& gpu_b) {
  const auto apart = [](double x, double y) {
    return std::abs(std::log2(std::max(x, 1e-9) / std::max(y, 1e-9)));
  };
  double sum = apart(parameters_of(a), parameters_of(b)) + 0.5 * apart(a.world(), b.world()) +
               apart(a.tp, b.tp) + apart(a.pp, b.pp) + apart(a.cp, b.cp) + apart(a.ep, b.ep) +
               0.5 * apart(a.sequence, b.sequence) + 0.5 * apart(a.micro_batch, b.micro_batch) +
               0.3 * apart(a.micro_batches, b.micro_batches) +
               0.5 * apart(a.virtual_stages, b.virtual_stages);
  if (gpu_a.name != gpu_b.name) sum += gpu_a.architecture == gpu_b.architecture ? 1.0 : 3.0;
  if (a.format != b.format) sum += 1.0;
  if (a.sharding != b.sharding) sum += 1.0;
  if (a.recompute != b.recompute) sum += 0.5;
  if (a.implementation != b.implementation) sum += 1.0;
  return sum;
}

std::optional<Prediction> predict_step(const config::Plan& plan, const model::ModelConfig& config,
                                       const layout::Layout& layout, int how_many,
                                       Diagnostics& found) {
  auto assumptions = assumptions_of(plan, found);
  if (!assumptions) return std::nullopt;
  Prediction prediction;
  prediction.assumptions = *std::move(assumptions);
  const cluster::Gpu& gpu = prediction.assumptions.gpu;
  const Calibration& calibration = prediction.assumptions.calibration;
  prediction.workload = workload_of(plan, config, layout);
  const Workload& workload = prediction.workload;
  prediction.time = estimate_step_time(workload, gpu, calibration.constants);
  if (!is_in_range(prediction.time)) {
    found.error("predict.range", Span{plan.file, 0, 0, 1, {}},
                "the predicted time or communication of a step is too large to represent",
                "use a smaller train.seq_len, train.micro_batch_size or train.global_batch_size");
    return std::nullopt;
  }
  prediction.tokens_per_second_per_gpu =
      workload.step_tokens() / prediction.time.seconds / workload.world();
  prediction.flops_per_token = model::train_flops_per_token(config, plan.train.seq_len);
  prediction.mfu = prediction.flops_per_token * prediction.tokens_per_second_per_gpu /
                   peak_flops(workload.format, gpu);
  if (how_many > 0) {
    const MeasuredRuns runs = built_in_runs();
    set_interval(runs, prediction);
    prediction.nearest = nearest_runs(runs, workload, gpu, calibration.constants, how_many);
  }
  return prediction;
}

}  // namespace am::predict
