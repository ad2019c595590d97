#include "am/planner/buckets.h"

#include <limits>
#include <variant>

#include "am/planner/precision.h"

namespace am::planner {

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
  int64_t bytes = std::numeric_limits<int64_t>::max();  // of the last bucket
  for (size_t i = layout.parameters.size(); i-- > 0;) {
    if (bytes >= (buckets.size() == 1 ? first_cap : cap)) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(static_cast<int>(i));
    if (layout.parameters[i].trainable) bytes += numel(layout.parameters[i].shape) * element;
  }
  return buckets;
}

}  // namespace am::planner
