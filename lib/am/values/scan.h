// Reads tensors of any size in blocks of rows. Each rank reads its own shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "am/inspect/pick.h"
#include "am/inspect/session.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Largest number of elements of a block that scan() passes to `visit`, unless one row has more. In
// double they need 8 MiB.
inline constexpr int64_t kScanBlock = int64_t{1} << 20;

// Callback for one block. `values` [box.shape] are the values of the block in the stored dtype;
// `box` is the location of the block in the tensor.
using ScanVisit = std::function<void(const at::Tensor& values, const mesh::Box& box)>;

// Calls `visit` with blocks of consecutive rows of this rank's shards, in host memory. Each element
// of the picked tensor is visited on one rank only. Throws Error(kUsage) if the user interrupted
// any rank. Collective.
void scan(Session& session, const inspect::Picked& picked, const ScanVisit& visit);
// Like scan(), but leaves blocks on their device. Blocks on a GPU have up to kDeviceBlock elements.
void scan_on_device(Session& session, const inspect::Picked& picked, const ScanVisit& visit);

// Returns the statistics (moments.h) of the picked tensor over all ranks. Ranks exchange only
// statistics, not values. Collective.
Moments moments_of(Session& session, const inspect::Picked& picked);

// Returns an object with the keys name, numel, min, max, mean, std, norm, nan and inf. A statistic
// is null if too few values are finite to compute it.
Json moments_json(const std::string& name, const Moments& moments);

}  // namespace am::values
