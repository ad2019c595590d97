// Reads published training runs (their layout, step time and memory) from a CSV table.
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

// Kinds of memory measurements in published runs.
enum class MemoryMetric {
  kAllocated,        // torch's max_memory_allocated
  kReserved,         // torch's max_memory_reserved
  kProcess,          // nvidia-smi: includes the CUDA context and NCCL's buffers
  kModelStates,      // bytes of parameters, gradients and optimizer states
  kHeldActivations,  // bytes of activations that are live at the end of forward
  kActivationPeak,   // the peak minus parameters, gradients and optimizer states
};
// Return the name of a value in the columns `memory_metric` and `format`, for example "allocated"
// or "bf16".
std::string_view name_of(MemoryMetric metric);
std::string_view name_of(ComputeFormat format);

struct MeasuredRun {
  std::string id;
  std::string source;  // the publication, for example "Megatron-Bridge 26.04 NeMo Container"
  std::string model;
  std::string group;  // label that is equal for all runs of one layout
  Workload workload;
  cluster::Gpu gpu;
  bool test_job = false;               // the run is a functional test with a tiny model
  std::optional<double> seconds;       // measured seconds per step
  std::optional<double> memory_bytes;  // measured memory, of the kind `metric`
  MemoryMetric metric = MemoryMetric::kAllocated;
  // Whether memory_bytes was measured on the last or on the first pipeline stage. If both members
  // are false, memory_bytes is the maximum over the stages.
  bool last_stage = false;
  bool first_stage = false;
  bool out_of_memory = false;  // the run failed for lack of memory

  bool is_timed() const { return seconds.has_value() && *seconds > 0.0; }
};

using MeasuredRuns = std::vector<MeasuredRun>;

// Parses a CSV table of runs. Skips each row with a wrong or missing cell, and adds at least one
// diagnostic for each skipped row, for example "csv.syntax" with the row's line.
MeasuredRuns read_measured_runs(std::string_view text, const std::string& file, Diagnostics& found);
// Returns the runs of plans/measured/runs.csv, whose text is embedded in the library.
MeasuredRuns built_in_runs();

}  // namespace am::predict
