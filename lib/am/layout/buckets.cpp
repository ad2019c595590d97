#include "am/layout/buckets.h"

#include <limits>
#include <variant>

#include "am/layout/precision.h"

namespace am::layout {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

}  // namespace

std::vector<std::vector<int>> gradient_buckets(const config::Plan& plan, const Layout& layout) {
  int64_t first_cap = std::numeric_limits<int64_t>::max();
  int64_t cap = first_cap;
  if (const auto* ddp = std::get_if<config::DDPConfig>(&plan.strategy)) {
    first_cap = kMiB;
    cap = ddp->bucket_cap_mb * kMiB;
  } else {
    const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy);
    if (megatron == nullptr || !megatron->disable_bucketing) return {};
  }
  const int64_t element = dtype_size(resolve_precision(plan).reduce);
  std::vector<std::vector<int>> buckets;
  // The bucket that is being filled. Dense parameters and expert-parallel parameters each have an
  // Open. `bytes` is initially the largest integer, so that the first parameter starts a bucket.
  struct Open {
    size_t bucket = 0;
    int64_t bytes = std::numeric_limits<int64_t>::max();
  };
  Open dense, experts;
  for (size_t i = layout.parameters.size(); i-- > 0;) {
    const ParameterLayout& parameter = layout.parameters[i];
    Open& open = parameter.expert_parallel() ? experts : dense;
    if (open.bytes >= (open.bucket == 0 ? first_cap : cap)) {
      open = {buckets.size(), 0};
      buckets.emplace_back();
    }
    buckets[open.bucket].push_back(static_cast<int>(i));
    if (parameter.trainable) open.bytes += numel(parameter.shape) * element;
  }
  return buckets;
}

}  // namespace am::layout
