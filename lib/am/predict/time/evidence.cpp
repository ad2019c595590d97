#include "am/predict/time/evidence.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::predict {
namespace {

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
    found.of_architecture += gpu == nullptr || run.gpu.architecture == gpu->architecture ? 1 : 0;
  }
  return found;
}

}  // namespace

std::string_view product_of(const cluster::Gpu& gpu) {
  const std::string_view name = gpu.name;
  return ends_with(name, "-pcie") ? name : name.substr(0, name.find('-'));
}

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
