// Any text as a table of measured runs.
#include "am/planner/cost/measured_runs.h"

#include "am/planner/cost/peak_memory.h"
#include "am/planner/cost/step_time.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = am::fuzz::text_of(data, size);
  am::Diagnostics found;
  for (const auto& run : am::planner::read_measured_runs(text, "runs.csv", found)) {
    am::planner::worst_peak_memory(run.workload);
    am::planner::estimate_step_time(run.workload, run.gpu, am::planner::CostConstants());
  }
  return 0;
}
