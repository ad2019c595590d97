// Published training runs: layout, step time, memory.
//
//   const MeasuredRuns runs = read_measured_runs(text, "runs.csv", found);
//
// lib/docs/predictions.md lists the columns. The built-in runs are plans/measured/runs.csv, which
// scripts/clean_measurements.py generates from the published sources.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/cluster/hardware.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Meaning of a memory measurement.
enum class MemoryMetric {
  kAllocated,        // torch's max_memory_allocated
  kReserved,         // torch's max_memory_reserved
  kProcess,          // nvidia-smi: includes the CUDA context and NCCL's buffers
  kModelStates,      // parameters, gradients, optimizer
  kHeldActivations,  // live at the end of forward
  kActivationPeak,   // the peak minus the states
};
// Names in the columns memory_metric and format: "allocated", "bf16".
std::string_view name_of(MemoryMetric metric);
std::string_view name_of(ComputeFormat format);

struct MeasuredRun {
  std::string id;
  std::string source;  // "Megatron-Bridge 26.04 NeMo Container"
  std::string model;
  std::string group;  // equal for runs of one layout
  Workload workload;
  cluster::Gpu gpu;
  bool test_job = false;               // a tiny model of a functional test
  std::optional<double> seconds;       // per step
  std::optional<double> memory_bytes;  // peak memory
  MemoryMetric metric = MemoryMetric::kAllocated;
  // Whether the memory is the last or the first pipeline stage's; if neither, the worst stage's.
  bool last_stage = false;
  bool first_stage = false;
  bool out_of_memory = false;  // the run failed for lack of memory

  bool is_timed() const { return seconds.has_value() && *seconds > 0.0; }
};

using MeasuredRuns = std::vector<MeasuredRun>;

// Parses runs. Adds "csv.syntax" with the line for a wrong or missing cell; such rows are skipped.
MeasuredRuns read_measured_runs(std::string_view text, const std::string& file, Diagnostics& found);
// Returns the built-in runs.
MeasuredRuns built_in_runs();

}  // namespace am::predict
