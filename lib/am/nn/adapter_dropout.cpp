#include "am/nn/adapter_dropout.h"

namespace am::nn {

std::optional<fused::Dropout> AdapterDropout::here() const {
  if (!pass->active) return std::nullopt;
  return fused::Dropout{p, fused::dropout_key(pass->seed, pass->step, module), pass->rows,
                        first_column};
}

}  // namespace am::nn
