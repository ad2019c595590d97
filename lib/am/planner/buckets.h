// Which gradients travel together where that is not by unit: one rule for the formulas and the
// runtime.
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/planner/layout.h"

namespace am::planner {

// Indices into layout.parameters, in the order in which backward makes the gradients: the reverse
// of the inventory's. Empty: each unit's travel together.
//
//   ddp            PyTorch's buckets: a bucket is full when its bytes reach bucket_cap_mb; the
//                  first is full at 1 MiB, so that the reduction starts early
//                  A frozen parameter is in the bucket of those before it, and sends nothing.
//   megatron_fsdp  with disable_bucketing one bucket of everything
//
// With ep > 1 experts are in buckets of their own, other ranks' experts included.
std::vector<std::vector<int>> gradient_buckets(const config::Plan& plan, const Layout& layout);

}  // namespace am::planner
