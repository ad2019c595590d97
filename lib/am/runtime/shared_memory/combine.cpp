#include "am/runtime/shared_memory/combine.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>

#include "am/base/error.h"

namespace am::runtime::shared_memory {

namespace {

// Number of elements per block. The accumulators of a block stay in the L1 cache, and the length of
// the loops is a compile-time constant.
constexpr int64_t kBlock = 512;

template <typename Scalar>
using Wide = std::conditional_t<sizeof(Scalar) < sizeof(float), float, Scalar>;

// Combines elements `at` to `at` + `count` - 1 of the rows. The type `Count` is a
// std::integral_constant for whole blocks, and int64_t for the last, shorter block.
template <typename Scalar, typename Count, typename Step>
void combine_block(Scalar* out, const std::vector<const void*>& rows, int64_t at, Count count,
                   bool from_zero, Step step) {
  Wide<Scalar> sums[kBlock];
  const auto* first = static_cast<const Scalar*>(rows[0]) + at;
  for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<Wide<Scalar>>(first[i]);
  if (from_zero) {
    for (int64_t i = 0; i < count; ++i) sums[i] = Wide<Scalar>(0) + sums[i];
  }
  for (size_t row = 1; row < rows.size(); ++row) {
    const auto* more = static_cast<const Scalar*>(rows[row]) + at;
    for (int64_t i = 0; i < count; ++i) {
      sums[i] = step(sums[i], static_cast<Wide<Scalar>>(more[i]));
    }
  }
  for (int64_t i = 0; i < count; ++i) out[at + i] = static_cast<Scalar>(sums[i]);
}

template <typename Scalar, typename Step>
void combine_rows(void* out, const std::vector<const void*>& rows, int64_t count, bool from_zero,
                  Step step) {
  auto* to = static_cast<Scalar*>(out);
  int64_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    combine_block(to, rows, at, std::integral_constant<int64_t, kBlock>(), from_zero, step);
  }
  if (at < count) combine_block(to, rows, at, count - at, from_zero, step);
}

template <typename Scalar>
void combine_as(Operation operation, void* out, const std::vector<const void*>& rows,
                int64_t count) {
  using Value = Wide<Scalar>;
  switch (operation) {
    case Operation::kSum:
    case Operation::kSumFromZero:
      return combine_rows<Scalar>(out, rows, count, operation == Operation::kSumFromZero,
                                  [](Value a, Value b) { return a + b; });
    case Operation::kMin:
      return combine_rows<Scalar>(out, rows, count, false,
                                  [](Value a, Value b) { return b < a ? b : a; });
    case Operation::kMax:
      return combine_rows<Scalar>(out, rows, count, false,
                                  [](Value a, Value b) { return a < b ? b : a; });
  }
}

}  // namespace

bool can_combine(c10::ScalarType dtype, Operation operation) {
  switch (dtype) {
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Half:
      return true;
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
      return operation != Operation::kSumFromZero;
    default:
      return false;
  }
}

void combine(c10::ScalarType dtype, Operation operation, void* out,
             const std::vector<const void*>& rows, int64_t count) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return combine_as<float>(operation, out, rows, count);
    case c10::ScalarType::Double:
      return combine_as<double>(operation, out, rows, count);
    case c10::ScalarType::BFloat16:
      return combine_as<c10::BFloat16>(operation, out, rows, count);
    case c10::ScalarType::Half:
      return combine_as<c10::Half>(operation, out, rows, count);
    case c10::ScalarType::Int:
      return combine_as<int32_t>(operation, out, rows, count);
    case c10::ScalarType::Long:
      return combine_as<int64_t>(operation, out, rows, count);
    default:
      AM_ASSERT(false, "combine() does not support this dtype: check can_combine() first");
  }
}

}  // namespace am::runtime::shared_memory
