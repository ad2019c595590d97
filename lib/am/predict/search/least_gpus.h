// Finds the smallest number of GPUs on which a model fits.
//
//   SearchRequest request{.model = config, .gpu = gpu};
//   least_gpus(request, calibration, /*from=*/1);   // 16
#pragma once

#include <cstdint>
#include <optional>

#include "am/predict/search/search.h"

namespace am::predict {

// Returns the smallest number of GPUs, at least `from`, for which search() finds a layout. Tries
// these numbers: powers of two within a machine; 1 to 32 machines; multiples of 2 machines up to
// 64, of 4 machines up to 128, and so on. Ignores `request.gpus`. Returns nullopt if search() finds
// no layout for any number up to 32,768.
std::optional<int64_t> least_gpus(SearchRequest request, const Calibration& calibration,
                                  int64_t from);

}  // namespace am::predict
