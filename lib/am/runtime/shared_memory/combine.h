// The arithmetic of reductions: combines the elements of several ranks in index order.
//
//   combine(at::kBFloat16, Operation::kSum, out, {row_0, row_1}, count);   // bfloat16 rows and out
//
// Narrow floats are summed in float32 and rounded once.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace am::runtime::shared_memory {

enum class Operation : uint8_t {
  kSum,          // row 0 + row 1 + ...
  kSumFromZero,  // 0 + row 0 + ..., as ATen sums: differs from kSum in the sign of a sum of -0's
  kMin,
  kMax,
};

// Supports float32, float64, bfloat16, float16, int32 and int64; kSumFromZero only floats.
bool can_combine(c10::ScalarType dtype, Operation operation);

// Each row holds `count` elements of `dtype`; `out` may be one of the rows.
void combine(c10::ScalarType dtype, Operation operation, void* out,
             const std::vector<const void*>& rows, int64_t count);

}  // namespace am::runtime::shared_memory
