#include "am/cuda/kernel_text.h"

#include "am/base/normal_math.h"
#include "am/base/text.h"

namespace am::cuda {

std::string operator_text() {
  std::string text;
  for (const char* file : {"scalar", "cross_entropy", "gated", "rotary"}) text += kernel_file(file);
  return text;
}

std::string draw_text() {
  return cat(kernel_file("scalar"), kNormalMathText, "\n", kernel_file("draw"));
}

std::vector<std::string> compile_options(std::string_view architecture, bool bfloat16) {
  return {cat("--gpu-architecture=sm_", architecture), "--std=c++17",
          "--device-as-default-execution-space",
          "-DAM_UNCONTRACTED=", cat("-DAM_BFLOAT16=", bfloat16 ? 1 : 0)};
}

}  // namespace am::cuda
