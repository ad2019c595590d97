// Input: a file that is read as the description of a GPU, and then as a calibration.
#include "am/cluster/hardware.h"
#include "am/predict/time/constants.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const am::fuzz::MemoryFile file(data, size);
  am::Diagnostics found;
  am::cluster::find_gpu(file.path(), "/", {}, found);
  am::predict::load_calibration(file.path(), {}, found);
  return 0;
}
