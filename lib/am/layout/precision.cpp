#include "am/layout/precision.h"

#include <variant>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::layout {

StepPrecision resolve_precision(const config::Plan& plan) {
  const std::string& dtype = plan.model.dtype;
  StepPrecision precision{.storage = dtype, .compute = dtype, .products = dtype, .reduce = dtype};
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    precision.compute = fsdp2->mp_policy.param_dtype.value_or(precision.storage);
    precision.reduce = fsdp2->mp_policy.reduce_dtype.value_or(precision.compute);
  } else if (const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy)) {
    if (megatron->preserve_fp32_weights) precision.storage = "float32";
    if (megatron->grad_reduce_in_fp32) precision.reduce = "float32";
  } else if (const auto* own = std::get_if<config::MegatronConfig>(&plan.strategy)) {
    // `storage` is the dtype of the copy that the optimizer updates.
    precision.storage = own->params_dtype == "float64" ? own->params_dtype : "float32";
    precision.compute = own->params_dtype;
    precision.reduce = own->grad_reduce_in_fp32 ? "float32" : own->params_dtype;
  }
  precision.products = autocast_dtype(plan.strategy).value_or(precision.compute);
  return precision;
}

const std::optional<std::string>& autocast_dtype(const config::DistributedConfig& strategy) {
  static const std::optional<std::string> kNone;
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy)) return fsdp2->autocast_dtype;
  const auto* ddp = std::get_if<config::DDPConfig>(&strategy);
  return ddp != nullptr ? ddp->autocast_dtype : kNone;
}

int64_t dtype_size(std::string_view dtype) {
  if (dtype == "float64") return 8;
  if (dtype == "float32") return 4;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  throw Error(ErrorKind::kInternal, cat("dtype \"", dtype, "\" has no known size"));
}

bool scales_loss(const config::Plan& plan) {
  const StepPrecision precision = resolve_precision(plan);
  for (const std::string& dtype : {precision.compute, precision.products, precision.reduce}) {
    if (dtype == "float16") return true;
  }
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  return fsdp2 != nullptr && fsdp2->mp_policy.output_dtype == "float16";
}

}  // namespace am::layout
