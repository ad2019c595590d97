// Writes a calibration as a TOML file.
#pragma once

#include <string>

#include "am/predict/time/constants.h"

namespace am_calibrate {

// Returns the text of a TOML file that load_calibration() can read. The file contains the number of
// runs, the errors on held-out runs, and the constants. If the calibration has factors of GPUs, the
// file leaves out all other constants.
std::string to_toml(const am::predict::Calibration& calibration);

}  // namespace am_calibrate
