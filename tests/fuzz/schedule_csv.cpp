// Input: a pipeline schedule as CSV. The target simulates valid schedules.
#include "am/pipeline/csv.h"
#include "am/pipeline/timeline.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  am::Diagnostics found;
  const auto csv = am::pipeline::parse_csv(am::fuzz::text_of(data, size), "schedule.csv", found);
  if (!csv || !found.ok()) return 0;
  const auto durations = am::pipeline::Durations::even(csv->schedule.stages(), csv->schedule.pp());
  am::pipeline::simulate(csv->schedule, durations);
  return 0;
}
