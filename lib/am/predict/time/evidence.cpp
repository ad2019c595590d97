#include "am/predict/time/evidence.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::predict {
namespace {

bool has_experts(const Workload& workload) {
  const auto& layers = workload.model.layers;
  return std::any_of(layers.begin(), layers.end(), [](const LayerGroup& group) {
    return group.profile.feed_forward.experts > 0;
  });
}

// Returns the product name of a GPU, for example "h100" for "h100-sxm" and "h100-sxm-96g-500w":
// kernels reach about the same fraction of the peak on GPUs of one product. "h100-pcie" is a
// product of its own, because of its power limit.
std::string_view product_of(const cluster::Gpu& gpu) {
  const std::string_view name = gpu.name;
  return ends_with(name, "-pcie") ? name : name.substr(0, name.find('-'));
}

template <typename Measured>
Evidence evidence(const MeasuredRuns& runs, const Workload& workload, const cluster::Gpu* gpu,
                  const Measured& is_measured) {
  Evidence found;
  for (const MeasuredRun& run : runs) {
    if (run.test_job || !is_measured(run)) continue;
    const bool same_who = run.workload.implementation == workload.implementation;
    const bool same_place = (gpu == nullptr || product_of(run.gpu) == product_of(*gpu)) &&
                            has_experts(run.workload) == has_experts(workload);
    found.of_implementation += same_who ? 1 : 0;
    found.on_gpu += same_place ? 1 : 0;
    found.of_this += same_who && same_place ? 1 : 0;
  }
  return found;
}

}  // namespace

Evidence timed_evidence(const MeasuredRuns& runs, const Workload& workload,
                        const cluster::Gpu& gpu) {
  return evidence(runs, workload, &gpu, [](const MeasuredRun& run) { return run.is_timed(); });
}

Evidence memory_evidence(const MeasuredRuns& runs, const Workload& workload,
                         const cluster::Gpu* gpu) {
  return evidence(runs, workload, gpu,
                  [](const MeasuredRun& run) { return run.memory_bytes.has_value(); });
}

std::string_view kind_of_model(const Workload& workload) {
  return has_experts(workload) ? "a model with experts" : "a dense model";
}

}  // namespace am::predict
