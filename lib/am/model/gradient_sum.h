// Whether a parameter's gradient must be all-reduced over tp.
//
// The loss is divided by the number of labels in the global batch, so gradients are sums over
// ranks. A gradient is summed over exactly those ranks that compute different parts of it. Over tp
// that is the case if a replicated parameter processes only its rank's tokens (sequence
// parallelism) or only its rank's heads. A sharded parameter belongs to one rank, and a replicated
// parameter that processes all tokens has equal gradients on all ranks. A missing sum lets the
// replicas diverge; a superfluous one makes the gradient tp times too large.
#pragma once

#include <optional>

#include "am/model/inventory.h"
#include "am/model/spec.h"
#include "am/model/tp_plan.h"

namespace am::model {

// How a TP plan uses a module.
struct TpUse {
  std::optional<TpStyle> style;    // absent: replicated
  bool sequence_parallel = false;  // hidden states between modules are sharded over the sequence
  // Routers and experts process sequence shards, regardless of other modules.
  bool deals_tokens = false;
  bool heads_are_cut = false;  // the heads that a norm over heads reads are sharded
  bool spans_heads = false;    // that norm has a weight per head, sharded with the heads
};

// Number of neighbouring tp ranks that hold the same key head, because the `heads` key heads are
// fewer than the ranks. Each of these ranks computes a part of the head's gradient. Returns 1 if
// every rank has key heads of its own, if tp is not a multiple of `heads`, or if heads == 0 (no
// sharding by heads).
int64_t ranks_of_a_head(int64_t tp, int64_t heads);

// Whether the gradient of the module's weight, or of its bias, must be summed over tp.
bool gradient_sum(const ModuleSpec& module, bool bias, const TpUse& use);
// Whether the gradient of a LoRA adapter's A or B must be summed over tp. A is sharded like the
// columns of W, B like its rows. The factor that stays replicated while the other is sharded has a
// partial gradient on each rank.
bool gradient_sum(AdapterPart part, const TpUse& use);

}  // namespace am::model
