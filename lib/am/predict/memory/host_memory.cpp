#include "am/predict/memory/host_memory.h"

#include "am/launch/doctor/memory_fit.h"
#include "am/predict/memory/memory.h"

namespace am::predict {
namespace {

// Returns a + b, or INT64_MAX if the sum overflows. The sums of absurdly large plans may overflow.
int64_t add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

template <typename OfRank>
int64_t sum_over(RankRange ranks, OfRank of_rank) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < ranks.count; ++i) {
    bytes = add(bytes, add(launch::kRankBytes, of_rank(ranks.first + i)));
  }
  return bytes;
}

}  // namespace

int64_t training_bytes(const config::Plan& plan, const model::ModelConfig& model,
                       const layout::Layout& layout, RankRange ranks) {
  return sum_over(ranks, [&](int64_t rank) {
    const MemoryComponents parts = estimate_memory(plan, model, layout, rank).components;
    return add(parts.total(), parts.host);
  });
}

int64_t inspection_bytes(const config::Plan& plan, const model::ModelConfig& model,
                         const layout::Layout& layout, RankRange ranks) {
  return sum_over(ranks, [&](int64_t rank) {
    const MemoryComponents parts = estimate_memory(plan, model, layout, rank).components;
    return add(add(parts.parameters, parts.host_parameters), add(parts.unsharded, parts.other));
  });
}

}  // namespace am::predict
