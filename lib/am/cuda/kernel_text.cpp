#include "am/cuda/kernel_text.h"

#include "am/base/error.h"
#include "am/base/normal_math.h"
#include "am/base/text.h"

namespace am::cuda {

std::string text_of(Part part) {
  const std::string_view scalar = kernel_file("scalar");
  switch (part) {
    case Part::kOperators:
      return cat(scalar, kernel_file("cross_entropy"), kernel_file("philox"),
                 kernel_file("dropout"), kernel_file("gated"), kernel_file("rotary"),
                 kernel_file("rows"));
    case Part::kNorms:
      return cat(scalar, kernel_file("rms_norm"));
    case Part::kDraw:
      return cat(scalar, kNormalMathText, "\n", kernel_file("philox"), kernel_file("draw"));
  }
  throw Error(ErrorKind::kInternal, "this part of the kernels has no source text");
}

std::vector<std::string> compile_options(Part part, std::string_view architecture, bool bfloat16) {
  std::vector<std::string> options = {cat("--gpu-architecture=sm_", architecture), "--std=c++17",
                                      "--device-as-default-execution-space", "-DAM_UNCONTRACTED=",
                                      cat("-DAM_BFLOAT16=", bfloat16 ? 1 : 0)};
  // Without fused multiply-adds, the GPU draws the same values as the host bit by bit.
  if (part == Part::kDraw) options.emplace_back("--fmad=false");
  return options;
}

}  // namespace am::cuda
