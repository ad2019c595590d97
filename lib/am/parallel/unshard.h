// AutoModel's unshard_fsdp2_model: a scope in which a model's parameters are gathered.
//
//   {
//     const auto whole = unshard_fsdp2_model(*model);
//     // every unit is gathered; parameters stay cut over tp
//   }  // and freed again, also when something throws
//
// Units are gathered in the model's order, so that all ranks run equal collectives. Scopes may be
// nested: parameters are freed when the outermost scope ends. In AutoModel, parameters are freed
// when the innermost scope ends, so that an outer scope has no full parameters afterwards.
//
// A forward or backward pass inside a scope frees units by the strategy's rules, as in PyTorch; a
// nested scope, or ParamGroup::unshard(), gathers these units again. Changes of full parameters are
// lost, because ranks store only shards.
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

// Collective over dp_shard_cp. Throws the error of a gather (Error(kPeer) if another rank does not
// join it) after freeing the units gathered until then.
UnshardScope unshard_fsdp2_model(ShardedParameters& model);

}  // namespace am::parallel
