// Traces the steps that the plan's metrics.trace selects, with libtorch's profiler. Each selected
// rank writes one file, a Chrome trace, which Perfetto opens.
//
//   StepTrace trace(plan.metrics.trace, mesh, run.root() / "traces");
//   trace.begin_step(step);
//   ...                                       // operators and ranges (trace_range.h) are recorded
//   for (const std::string& line : trace.end_step(step)) log(line);
//
// A trace contains ATen's operators, on GPUs also the kernels, and named ranges. Ranges are, among
// others, steps, passes of the pipeline, units, and collectives. A pass has the same name as in
// `am-plan schedule --trace`, for example 2F0 for the forward of stage 2 on micro-batch 0. The file
// of rank R that begins with step N is step-N.rank-R.json. With metrics.trace.memory, a GPU's
// allocations are written to step-N.rank-R.memory.pickle. If several steps were traced, up to step
// M, the names begin with step-N-M.
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
  // Traces nothing if `section` is absent or does not include this rank, or on the meta device.
  // `folder` is created when the trace is written. `mesh` must outlive this object.
  StepTrace(const std::optional<config::TraceSection>& section, const runtime::DeviceMesh& mesh,
            std::filesystem::path folder);
  // Discards a trace that was not written.
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // Starts the profiler if `step` (counted from 1) must be traced and the profiler does not run
  // yet. The profiler records the calling thread and the threads of autograd.
  void begin_step(int64_t step);
  // After the last traced step, writes the trace. Returns lines for the log: the path of the first
  // file that any rank has written, and the errors of ranks that could not write. After other
  // steps, returns no lines. Collective.
  std::vector<std::string> end_step(int64_t step);
  // Like end_step(), for a job that ends before the last traced step. Collective.
  std::vector<std::string> finish();

 private:
  std::string write();
  std::vector<std::string> write_all();

  std::optional<config::TraceSection> section_;  // empty: no step is traced from now on
  bool traced_ = false;                          // whether section_ includes this rank
  const runtime::DeviceMesh& mesh_;
  std::filesystem::path folder_;
  int64_t first_ = 0;  // first step of the trace; 0: the profiler does not run
  int64_t last_ = 0;   // last step for which end_step() was called
  const tensor::MemoryHistory* history_ = nullptr;  // not null while allocations are recorded
};

}  // namespace am::train
