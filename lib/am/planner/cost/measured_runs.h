// Published training runs: how they were cut, how long a step took, how much memory was used.
//
//   const MeasuredRuns runs = read_measured_runs(text, "runs.csv", found);
//
// lib/docs/predictions.md lists the columns. The built-in runs are plans/measured/runs.csv, which
// scripts/clean_measurements.py makes of what their sources say.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/planner/cost/hardware.h"
#include "am/planner/cost/workload.h"

namespace am::planner {

// What a measured amount of memory is.
enum class MemoryMetric {
  kAllocated,        // torch's max_memory_allocated
  kReserved,         // torch's max_memory_reserved
  kProcess,          // nvidia-smi: with the context and NCCL's buffers
  kModelStates,      // parameters, gradients, optimizer
  kHeldActivations,  // alive when forward ends
  kActivationPeak,   // the peak less the states
};
// As in the columns memory_metric and format: "allocated", "bf16".
std::string_view name_of(MemoryMetric metric);
std::string_view name_of(ComputeFormat format);

struct MeasuredRun {
  std::string id;
  std::string source;  // "Megatron-Bridge 26.04 NeMo Container"
  std::string model;
  std::string group;  // equal for runs of one layout
  Workload workload;
  Gpu gpu;
  bool test_job = false;               // a tiny model of a functional test
  std::optional<double> seconds;       // of one step
  std::optional<double> memory_bytes;  // its peak
  MemoryMetric metric = MemoryMetric::kAllocated;
  bool last_stage = false;  // whose memory: the last pipeline stage's, or the worst
  bool first_stage = false;
  bool out_of_memory = false;  // did not run

  bool is_timed() const { return seconds.has_value() && *seconds > 0.0; }
};

using MeasuredRuns = std::vector<MeasuredRun>;

// Adds "csv.syntax" with the line for a cell that is wrong or missing; such rows are left out.
MeasuredRuns read_measured_runs(std::string_view text, const std::string& file, Diagnostics& found);
// Those that are built in.
MeasuredRuns built_in_runs();

}  // namespace am::planner
