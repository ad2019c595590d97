// A scope in which a model's parameters are whole: AutoModel's unshard_fsdp2_model.
//
//   {
//     const auto whole = unshard_fsdp2_model(*model);
//     // every unit is gathered; what tensor parallelism cuts stays cut
//   }  // and freed again, also when something throws
//
// Units are gathered in the model's order, so that all ranks meet in the same collectives. Scopes
// may lie in each other: the outermost one frees. AutoModel's frees when the innermost ends, and
// what an outer scope holds is gone.
//
// A forward or backward pass inside frees units by the strategy's rules, as in PyTorch; another
// scope inside, or DataParallel's groups one by one, gather them again. Values that change while
// they are whole are lost: ranks store their shards.
#pragma once

#include "am/parallel/parallel_model.h"

namespace am::parallel {

class [[nodiscard]] UnshardScope {
 public:
  UnshardScope(UnshardScope&& other) noexcept;
  UnshardScope(const UnshardScope&) = delete;
  UnshardScope& operator=(const UnshardScope&) = delete;
  UnshardScope& operator=(UnshardScope&&) = delete;
  ~UnshardScope();

 private:
  friend UnshardScope unshard_fsdp2_model(ParallelModel& model);
  explicit UnshardScope(ParallelModel& model);

  ParallelModel* model_;  // null: moved from
};

// Collective over dp_shard_cp. Throws what a gather throws (Error(kPeer) when a rank does not take
// part); the units gathered until then are freed first.
UnshardScope unshard_fsdp2_model(ParallelModel& model);

}  // namespace am::parallel
