// The arithmetic of reductions: combines the elements of several ranks in index order.
//
//   combine(at::kBFloat16, Operation::kSum, out, {row_0, row_1}, count);   // bfloat16 rows and out
//
// A row holds the elements of one rank. bfloat16 and float16 are summed in float32, and the result
// is rounded once.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace am::runtime::shared_memory {

enum class Operation : uint8_t {
  kSum,          // row 0 + row 1 + ...; a sum of -0's is -0
  kSumFromZero,  // 0 + row 0 + row 1 + ..., as in ATen: a sum of -0's is 0
  kMin,
  kMax,
};

// Returns whether combine() supports the operation for this dtype. float32, float64, bfloat16 and
// float16 support all operations; int32 and int64 support all except kSumFromZero.
bool can_combine(c10::ScalarType dtype, Operation operation);

// Combines the rows element by element and writes the result to `out`. Each row, and `out`, holds
// `count` elements of `dtype`; `out` may be one of the rows.
void combine(c10::ScalarType dtype, Operation operation, void* out,
             const std::vector<const void*>& rows, int64_t count);

}  // namespace am::runtime::shared_memory
