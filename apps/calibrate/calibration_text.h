// Writes a calibration as a TOML file.
#pragma once

#include <string>

#include "am/predict/time/constants.h"

namespace am_calibrate {

// Returns the calibration as the text of a TOML file, which load_calibration() reads: only the
// factors of GPUs if it has any, otherwise all constants; and the errors on held-out runs.
std::string to_toml(const am::predict::Calibration& calibration);

}  // namespace am_calibrate
