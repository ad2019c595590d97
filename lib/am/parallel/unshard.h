// AutoModel's unshard_fsdp2_model: a scope in which a model's parameters are gathered.
//
//   {
//     const auto whole = unshard_fsdp2_model(*model);
//     // all units are gathered; parameters stay sharded over tp
//   }  // all units are freed, also after an exception
//
// Units are gathered in the model's order, so that all ranks run equal collectives. Scopes may be
// nested: parameters are freed when the outermost scope ends. In AutoModel, parameters are freed
// when the innermost scope ends, so that an outer scope has no full parameters afterwards.
//
// A forward or backward pass inside a scope frees units by the strategy's rules, as in PyTorch. A
// nested scope, or ParamGroup::unshard(), gathers these units again. Ranks store only shards, so a
// change of a full parameter is lost when the unit is freed.
#pragma once

#include "am/parallel/sharded_parameters.h"

namespace am::parallel {

class [[nodiscard]] UnshardScope {
 public:
  UnshardScope(UnshardScope&& other) noexcept;
  UnshardScope(const UnshardScope&) = delete;
  UnshardScope& operator=(const UnshardScope&) = delete;
  UnshardScope& operator=(UnshardScope&&) = delete;
  ~UnshardScope();

 private:
  friend UnshardScope unshard_fsdp2_model(ShardedParameters& model);
  explicit UnshardScope(ShardedParameters& model);

  ShardedParameters* model_;  // null after the scope was moved from
};

// Gathers all units and returns the scope that frees them. Collective over dp_shard_cp, and over
// ep_shard for experts. If a gather throws, frees the units gathered before and rethrows:
// Error(kPeer) if another rank did not join the gather.
UnshardScope unshard_fsdp2_model(ShardedParameters& model);

}  // namespace am::parallel
