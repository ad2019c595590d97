// AutoModel's unshard_fsdp2_model: a scope in which a model's parameters are gathered.
//
//   {
//     const auto whole = unshard_fsdp2_model(*model);
//     // every unit is gathered; parameters stay cut over tp
//   }  // and freed again, also when something throws
//
// Units are gathered in the model's order, so that all ranks run equal collectives. Scopes may be
// nested: parameters are freed when the outermost scope ends. In AutoModel they are freed when the
// innermost scope ends, and an outer scope then has no full parameters.
//
// A forward or backward pass inside frees units by the strategy's rules, as in PyTorch; a nested
// scope, or unshard() of DataParallel's groups, gathers them again. Changes to gathered values are
// lost: ranks store their shards.
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

// Collective over dp_shard_cp. Throws the error of a gather (Error(kPeer) if a rank does not take
// part) after freeing the units gathered until then.
UnshardScope unshard_fsdp2_model(ShardedParameters& model);

}  // namespace am::parallel
