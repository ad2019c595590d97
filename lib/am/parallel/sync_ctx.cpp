#include "am/parallel/sync_ctx.h"

#include <utility>
#include <variant>

namespace am::parallel {

SyncContext::SyncContext(SyncContext&& other) noexcept
    : restore_(std::exchange(other.restore_, nullptr)) {}

SyncContext::~SyncContext() {
  if (restore_ != nullptr) restore_->set_requires_gradient_sync(true);
}

SyncContext get_sync_ctx(DataParallel& model, const config::DistributedConfig& strategy,
                         bool is_optim_step, bool defer_fsdp_grad_sync) {
  SyncContext context;
  if (std::holds_alternative<config::FSDP2Config>(strategy)) {
    model.set_requires_gradient_sync(is_optim_step || !defer_fsdp_grad_sync);
  } else if (std::holds_alternative<config::DDPConfig>(strategy) && !is_optim_step) {
    model.set_requires_gradient_sync(false);
    context.restore_ = &model;
  } else if (std::holds_alternative<config::MegatronFSDPConfig>(strategy) ||
             std::holds_alternative<config::MegatronConfig>(strategy)) {
    model.set_requires_gradient_sync(is_optim_step || !config::defers_gradient_sync(strategy));
  }
  return context;
}

}  // namespace am::parallel
