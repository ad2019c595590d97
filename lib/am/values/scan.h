// Reads tensors of any size in blocks of rows. Each rank reads its own shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "am/inspect/pick.h"
#include "am/inspect/session.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Number of elements that are converted to double at a time; in double they need 8 MiB.
inline constexpr int64_t kScanBlock = int64_t{1} << 20;

// Type of the callback for one block: its `values` [box.shape] in the stored dtype, and `box`, its
// location in the tensor.
using ScanVisit = std::function<void(const at::Tensor& values, const mesh::Box& box)>;

// Calls `visit` with blocks of whole rows, each in host memory. The blocks are distributed over
// the ranks such that each element is visited once. Throws Error(kUsage) if the user interrupted
// any rank. Collective.
void scan(Session& session, const inspect::Picked& picked, const ScanVisit& visit);
// Like scan(), but does not copy blocks from a device to the host; such blocks are larger.
void scan_on_device(Session& session, const inspect::Picked& picked, const ScanVisit& visit);

// Returns the moments of the picked tensor over all ranks. Only moments are communicated, not
// values. Collective.
Moments moments_of(Session& session, const inspect::Picked& picked);

// Returns an object with the keys name, numel, min, max, mean, std, norm, nan and inf. A statistic
// is null if too few values are finite to compute it.
Json moments_json(const std::string& name, const Moments& moments);

}  // namespace am::values
