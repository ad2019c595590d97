#include "am/parallel/unshard.h"

#include <utility>

namespace am::parallel {

UnshardScope::UnshardScope(ShardedParameters& model) : model_(&model) { ++model.unshard_scopes_; }

UnshardScope::UnshardScope(UnshardScope&& other) noexcept
    : model_(std::exchange(other.model_, nullptr)) {}

UnshardScope::~UnshardScope() {
  if (model_ == nullptr || --model_->unshard_scopes_ > 0) return;
  for (const auto& group : model_->groups()) group->reshard();
}

UnshardScope unshard_fsdp2_model(ShardedParameters& model) {
  // The scope exists before any gather, so that its destructor frees the gathered units if a gather
  // throws.
  UnshardScope scope(model);
  for (const auto& group : model.groups()) group->unshard();
  return scope;
}

}  // namespace am::parallel
