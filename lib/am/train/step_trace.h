// Traces the steps of one rank that the plan's metrics.trace names, with libtorch's profiler, and
// writes the trace as a Chrome trace, which Perfetto opens.
//
//   StepTrace trace(plan.metrics.trace, mesh, run.root() / "traces");
//   trace.begin_step(step);
//   ...                                       // operators and ranges (trace_range.h) are recorded
//   for (const std::string& line : trace.end_step(step)) log(line);
//
// A trace has the operators of ATen, on GPUs also the kernels, and ranges: passes of the pipeline
// under the names of `am-plan schedule --trace`, such as 2F0, units, and collectives. With
// metrics.trace.memory, a GPU's allocations are written too, as step-N.rank-R.memory.pickle.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/runtime/device_mesh.h"
#include "am/tensor/memory_history.h"

namespace am::train {

class StepTrace {
 public:
  // Traces nothing if `section` is absent or does not include this rank. `folder` is created when
  // the trace is written. `mesh` must outlive this object.
  StepTrace(const std::optional<config::TraceSection>& section, const runtime::DeviceMesh& mesh,
            std::filesystem::path folder);
  // Discards a trace that was not written.
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // Starts the profiler before the first traced step. Steps are counted from 1. The profiler
  // records the calling thread and the threads of autograd.
  void begin_step(int64_t step);
  // After the last traced step, writes the trace, and returns lines for the log: the first file
  // that a rank has written, and why other ranks could not write. Collective.
  std::vector<std::string> end_step(int64_t step);
  // Like end_step(), for a job that ends before the last traced step. Collective.
  std::vector<std::string> finish();

 private:
  std::string write();
  std::vector<std::string> write_all();

  std::optional<config::TraceSection> section_;  // empty once the trace was written
  bool traced_ = false;
  const runtime::DeviceMesh& mesh_;
  std::filesystem::path folder_;
  int64_t first_ = 0;  // first step of the trace; 0: the profiler does not run
  int64_t last_ = 0;
  const tensor::MemoryHistory* history_ = nullptr;  // not null while allocations are recorded
};

}  // namespace am::train
