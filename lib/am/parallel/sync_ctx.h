// NeMo AutoModel's get_sync_ctx: a scope that decides whether the backward passes inside it reduce
// gradients over the ranks.
//
//   {
//     const auto sync = get_sync_ctx(model.data_parallel(), plan.strategy, is_optim_step, defer);
//     loss.backward();
//   }
//
//   DDP            only the step's last backward pass reduces (no_sync for all other passes); after
//                  the scope every pass reduces again
//   FSDP2          with defer_fsdp_grad_sync, only the step's last backward pass reduces, otherwise
//                  every pass; this stays in effect after the scope, until the next scope
//   Megatron-FSDP  at levels 2 and 3, which shard gradients, every backward pass reduces; at levels
//                  0 and 1, only the step's last backward pass; this stays in effect after the
//                  scope, until the next scope
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

  DataParallel* restore_ = nullptr;  // model that reduces again after the scope; null: no model
};

// Returns a scope for backward passes. `is_optim_step`: whether the pass inside the scope is the
// last one before the optimizer's step.
SyncContext get_sync_ctx(DataParallel& model, const config::DistributedConfig& strategy,
                         bool is_optim_step, bool defer_fsdp_grad_sync = true);

}  // namespace am::parallel
