// Gradient buckets of the strategies that reduce gradients by bucket instead of by FSDP unit.
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"

namespace am::layout {

// Returns the buckets as indices into layout.parameters, in the order in which backward produces
// the gradients: the reverse of the inventory. Empty in all cases not listed below.
//
//   ddp            PyTorch's buckets: a bucket is full when its bytes reach bucket_cap_mb; the
//                  first is full at 1 MiB, so that the reduction starts early.
//                  A frozen parameter is listed in the bucket being filled and adds no bytes.
//   megatron_fsdp  with disable_bucketing, one bucket with all gradients
//
// With ep > 1, experts have buckets of their own, which list the experts of all ep ranks.
std::vector<std::vector<int>> gradient_buckets(const config::Plan& plan, const Layout& layout);

}  // namespace am::layout
