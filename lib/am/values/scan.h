// Scans tensors of any size in blocks of rows, on the ranks that hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "am/inspect/pick.h"
#include "am/inspect/session.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Elements that are converted to double at a time: 8 MiB.
inline constexpr int64_t kScanBlock = int64_t{1} << 20;

// values: [box.shape] in the stored dtype; box: their location in the tensor.
using ScanVisit = std::function<void(const at::Tensor& values, const mesh::Box& box)>;

// Visits this rank's share of the picked tensor in blocks of whole rows; over all ranks each
// element is visited once. Throws Error(kUsage) if any rank was interrupted; collective.
void scan(Session& session, const Picked& picked, const ScanVisit& visit);

// Returns the moments of the picked tensor over all ranks; only moments are communicated.
// Collective.
Moments moments_of(Session& session, const Picked& picked);

// Returns name, numel, min, max, mean, std, norm, nan, inf; null if no value is finite.
Json moments_json(const std::string& name, const Moments& moments);

}  // namespace am::values
