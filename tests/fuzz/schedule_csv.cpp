// Any text as a pipeline's schedule: read, validated, and run where it passes.
#include "am/schedule/csv.h"
#include "am/schedule/timeline.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  am::Diagnostics found;
  const auto csv = am::schedule::parse_csv(am::fuzz::text_of(data, size), "schedule.csv", found);
  if (!csv || !found.ok()) return 0;
  const auto durations = am::schedule::Durations::even(csv->schedule.stages(), csv->schedule.pp());
  am::schedule::simulate(csv->schedule, durations);
  return 0;
}
