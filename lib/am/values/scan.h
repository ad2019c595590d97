// Looking through tensors of any size: blocks of rows, in double, on the ranks that hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "am/inspect/pick.h"
#include "am/inspect/session.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Elements that become double at once: 8 MiB.
inline constexpr int64_t kScanBlock = int64_t{1} << 20;

// values: [box.shape] in the stored dtype; box: where they are in the tensor.
using ScanVisit = std::function<void(const at::Tensor& values, const mesh::Box& box)>;

// This rank's share of what was picked, in blocks of whole rows: over all ranks each element comes
// once. Throws Error(kUsage) when any rank was interrupted; collective.
void scan(Session& session, const Picked& picked, const ScanVisit& visit);

// The moments of what was picked, over all ranks: only they travel. Collective.
Moments moments_of(Session& session, const Picked& picked);

// name, numel, min, max, mean, std, norm, nan, inf; null where nothing is finite.
Json moments_json(const std::string& name, const Moments& moments);

}  // namespace am::values
