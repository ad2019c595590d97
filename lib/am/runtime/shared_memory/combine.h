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
  kSumFromZero,  // 0 + row 0 + ..., like ATen: a sum of -0's is 0, with kSum -0
  kMin,
  kMax,
};

// Supports float32, float64, bfloat16, float16, int32 and int64; kSumFromZero only floats.
bool can_combine(c10::ScalarType dtype, Operation operation);

// Writes the combination of the rows to `out`. Each row holds `count` elements of `dtype`; `out`
// may be one of the rows.
void combine(c10::ScalarType dtype, Operation operation, void* out,
             const std::vector<const void*>& rows, int64_t count);

}  // namespace am::runtime::shared_memory
