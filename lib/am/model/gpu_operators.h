// What operators on a GPU do that shows in memory: facts that the operators keep to and the memory
// model counts by.
#pragma once

#include <cstdint>

namespace am::model {

// Logits that the loss reads at a time (nn/fused/cross_entropy_rows.cpp), of which it has one copy
// in float32.
inline constexpr int64_t kLossElements = int64_t{256} << 20;

}  // namespace am::model
