// Any text as a file of a GPU, and as a calibration.
#include "am/planner/cost/constants.h"
#include "am/planner/cost/hardware.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const am::fuzz::MemoryFile file(data, size);
  am::Diagnostics found;
  am::planner::find_gpu(file.path(), "/", {}, found);
  am::planner::load_calibration(file.path(), {}, found);
  return 0;
}
