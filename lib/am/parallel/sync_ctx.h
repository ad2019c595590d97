// NeMo AutoModel's get_sync_ctx: whether the backward passes inside its scope reduce gradients
// between the ranks.
//
//   {
//     const auto sync = get_sync_ctx(model.data_parallel(), plan.strategy, is_optim_step, defer);
//     loss.backward();
//   }
//
//   DDP            the backward passes before the step's last one keep their gradients (no_sync);
//                  after the scope gradients are reduced again
//   FSDP2          the same with defer_fsdp_grad_sync, else every backward pass reduces; holds
//   after
//                  the scope too, until the next one
//   Megatron-FSDP  sharded gradients (levels 2 and 3) are reduced by every backward pass, whole
//   ones
//                  (0 and 1) by the step's last; holds after the scope too
#pragma once

#include "am/config/strategy_config.h"
#include "am/parallel/data_parallel.h"

namespace am::parallel {

class [[nodiscard]] SyncContext {
 public:
  // No effect.
  SyncContext() = default;
  SyncContext(SyncContext&& other) noexcept;
  SyncContext& operator=(SyncContext&&) = delete;
  ~SyncContext();

 private:
  friend SyncContext get_sync_ctx(DataParallel&, const config::DistributedConfig&, bool, bool);

  DataParallel* restore_ = nullptr;  // to reduce again after the scope
};

// `is_optim_step`: the backward pass inside is the last one before the optimizer's step.
SyncContext get_sync_ctx(DataParallel& model, const config::DistributedConfig& strategy,
                         bool is_optim_step, bool defer_fsdp_grad_sync = true);

}  // namespace am::parallel
