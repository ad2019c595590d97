#include "am/nn/adapter_dropout.h"

namespace am::nn {

namespace {

std::optional<DropoutPass>& in_force() {
  thread_local std::optional<DropoutPass> pass;
  return pass;
}

}  // namespace

std::optional<DropoutPass> current_dropout() { return in_force(); }

DropoutScope::DropoutScope(const std::optional<DropoutPass>& pass) : before_(in_force()) {
  in_force() = pass;
}

DropoutScope::~DropoutScope() { in_force() = before_; }

std::optional<fused::Dropout> AdapterDropout::here() const {
  const std::optional<DropoutPass> pass = current_dropout();
  if (!pass) return std::nullopt;
  return fused::Dropout{p, fused::dropout_key(pass->seed, pass->step, module), pass->rows,
                        first_column};
}

}  // namespace am::nn
