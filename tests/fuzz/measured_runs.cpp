// Input: a CSV table of measured runs. The memory and the time of each run are predicted.
#include "am/predict/time/measured_runs.h"

#include "am/predict/memory/peak_memory.h"
#include "am/predict/time/step_time.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = am::fuzz::text_of(data, size);
  am::Diagnostics found;
  for (const auto& run : am::predict::read_measured_runs(text, "runs.csv", found)) {
    am::predict::worst_peak_memory(run.workload);
    am::predict::estimate_step_time(run.workload, run.gpu, am::predict::CostConstants());
  }
  return 0;
}
