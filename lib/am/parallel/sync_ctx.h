// NeMo AutoModel's get_sync_ctx: a scope that decides whether the backward passes inside it reduce
// gradients over the ranks.
//
//   {
//     const auto sync = get_sync_ctx(model.data_parallel(), plan.strategy, is_optim_step, defer);
//     loss.backward();
//   }
//
//   DDP            Only the step's last backward pass reduces (no_sync for all other passes). After
//                  the scope, every pass reduces again.
//   FSDP2          With defer_fsdp_grad_sync, only the step's last backward pass reduces; without,
//                  every pass reduces. The choice applies until the next scope.
//   Megatron-FSDP  At levels 2 and 3, which shard gradients, every backward pass reduces; at levels
//                  0 and 1, only the step's last backward pass reduces. The choice applies until
//                  the next scope. The strategy megatron behaves in the same way.
#pragma once

#include "am/config/strategy_config.h"
#include "am/parallel/data_parallel.h"

namespace am::parallel {

class [[nodiscard]] SyncContext {
 public:
  // Creates a scope without effect.
  SyncContext() = default;
  SyncContext(SyncContext&& other) noexcept;
  SyncContext& operator=(SyncContext&&) = delete;
  ~SyncContext();

 private:
  friend SyncContext get_sync_ctx(DataParallel&, const config::DistributedConfig&, bool, bool);

  DataParallel* restore_ = nullptr;  // object whose sync the destructor turns on; null: none
};

// Returns a scope for one backward pass. `is_optim_step`: whether this pass is the last one before
// the optimizer's step. `defer_fsdp_grad_sync` applies to FSDP2 only.
SyncContext get_sync_ctx(DataParallel& model, const config::DistributedConfig& strategy,
                         bool is_optim_step, bool defer_fsdp_grad_sync = true);

}  // namespace am::parallel
