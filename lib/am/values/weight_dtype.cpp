#include "am/values/weight_dtype.h"

#include <array>
#include <string_view>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::values {
namespace {

struct Name {
  std::string_view text;
  at::ScalarType dtype;
};
constexpr std::array<Name, 6> kNames = {{{"float32", at::kFloat},
                                         {"fp32", at::kFloat},
                                         {"bfloat16", at::kBFloat16},
                                         {"bf16", at::kBFloat16},
                                         {"float16", at::kHalf},
                                         {"fp16", at::kHalf}}};

}  // namespace

at::ScalarType parse_weight_dtype(const std::string& name) {
  for (const Name& known : kNames) {
    if (known.text == name) return known.dtype;
  }
  throw Error(ErrorKind::kUsage, cat("`", name, "` is not a dtype for weights"),
              cat("use ", kWeightDtypes));
}

}  // namespace am::values
