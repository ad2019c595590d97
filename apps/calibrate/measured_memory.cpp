#include "calibrate/measured_memory.h"

#include "am/predict/memory/peak_memory.h"

namespace am_calibrate {
namespace {

using am::predict::MemoryMetric;
using am::predict::PeakMemory;
using am::predict::Workload;

// Returns the bytes that the metric would report for the predicted peak.
double measured_as(MemoryMetric metric, const Workload& workload, const PeakMemory& peak) {
  switch (metric) {
    case MemoryMetric::kAllocated:
      return peak.total();
    case MemoryMetric::kReserved:
      return am::predict::reserved_bytes(*workload.implementation, peak.total());
    case MemoryMetric::kProcess:
      return am::predict::process_bytes(*workload.implementation, peak.total());
    case MemoryMetric::kModelStates:
      return peak.states() + peak.workspace;
    case MemoryMetric::kHeldActivations:
      return peak.activations + peak.logits;
    case MemoryMetric::kActivationPeak:
      return peak.activations + peak.recomputed + peak.logits + peak.loss;
  }
  return peak.total();
}

}  // namespace

double predicted_bytes(const am::predict::MeasuredRun& run) {
  const auto last = static_cast<int64_t>(run.workload.pp) - 1;
  PeakMemory peak;
  if (run.last_stage) {
    peak = estimate_peak_memory(run.workload, last);
  } else if (run.first_stage) {
    peak = estimate_peak_memory(run.workload, 0);
  } else {
    peak = worst_peak_memory(run.workload);
  }
  return measured_as(run.metric, run.workload, peak);
}

}  // namespace am_calibrate
