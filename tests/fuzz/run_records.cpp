// Input: one byte, followed by a file of a run folder: metrics.jsonl if the byte is even, or
// result.json if the byte is odd.
#include "am/observe/metrics.h"
#include "am/run_folder/job_record.h"
#include "support/temporary_folder.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder;
  if (size == 0) return 0;
  const am::run_folder::RunFolder run(folder.path());
  static const am::fuzz::MemoryFile metrics(run.metrics_file());
  static const am::fuzz::MemoryFile result(run.result_file());
  try {
    if (data[0] % 2 == 0) {
      metrics.write(data + 1, size - 1);
      for (const auto& record : am::observe::read_metrics(run.metrics_file())) {
        am::observe::to_json_line(record);
      }
    } else {
      result.write(data + 1, size - 1);
      am::run_folder::read_record(run);
    }
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
