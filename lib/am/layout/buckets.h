// Gradient buckets of the strategies that reduce gradients by bucket instead of by FSDP unit.
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"

namespace am::layout {

// Returns the buckets as indices into layout.parameters, in the order in which backward produces
// the gradients: the reverse of the inventory. Returns no buckets for plans other than these:
//
//   ddp            PyTorch's buckets: a bucket is full when its gradients reach bucket_cap_mb MiB;
//                  the first bucket is full at 1 MiB, so that the reduction starts early. A frozen
//                  parameter is listed in the bucket being filled and adds no bytes.
//   megatron_fsdp  with disable_bucketing, one bucket with all gradients
//
// With ep > 1, experts have separate buckets, which list the experts of all ep ranks.
std::vector<std::vector<int>> gradient_buckets(const config::Plan& plan, const Layout& layout);

}  // namespace am::layout
