// Decides whether the gradient of a parameter must be summed (all-reduced) over the tp ranks.
//
// The loss is divided by the number of labels in the global batch, so gradients are sums over
// ranks. A gradient is summed over exactly those ranks that compute different parts of it. The tp
// ranks compute different parts of the gradient of a replicated parameter in three cases:
// - Each rank applies the parameter only to some tokens (sequence parallelism).
// - Each rank applies the parameter only to some heads.
// - The parameter is a part of a LoRA adapter, and each rank holds a shard of the adapted matrix.
// In all other cases no sum is needed. The rank that stores a shard computes the shard's whole
// gradient (except for key heads, see ranks_of_a_head()). The gradients of all other replicated
// parameters are equal on all ranks. If a needed sum is missing, the replicas diverge. A
// superfluous sum multiplies the gradient by the number of tp ranks.
#pragma once

#include <optional>

#include "am/model/inventory.h"
#include "am/model/spec.h"
#include "am/model/tp_plan.h"

namespace am::model {

// Sharding of a module and of its input by a TP plan.
struct TpUse {
  std::optional<TpStyle> style;    // style of the module; absent: the module is replicated
  bool sequence_parallel = false;  // hidden states between modules are sharded over the sequence
  // Whether each rank applies routers and experts to its part of the tokens. True also for plans
  // that do not shard the hidden states between other modules over the sequence.
  bool deals_tokens = false;
  // Only for a norm over queries or keys: whether the heads that it reads are sharded over tp.
  bool heads_are_cut = false;
  // Only for a norm over queries or keys: whether each head has its own norm weights. These weights
  // are sharded like the heads.
  bool spans_heads = false;
};

// Returns the number of neighbouring tp ranks that store the same key head: tp / heads if there are
// fewer key heads (`heads`) than ranks (`tp`), otherwise 1. Each rank that stores the head computes
// a part of the head's gradient. Also returns 1 if tp is not a multiple of `heads`, or if heads is
// 0 (the parameter is not sharded by heads).
int64_t ranks_of_a_head(int64_t tp, int64_t heads);

// Whether the gradient of the module's weight (`bias` false) or bias (`bias` true) must be summed
// over tp.
bool gradient_sum(const ModuleSpec& module, bool bias, const TpUse& use);
// Whether the gradient of a part of a LoRA adapter must be summed over tp. `use` describes the
// adapted matrix W [out, in]. A is sharded if W is sharded along `in`; B and DoRA's magnitudes are
// sharded if W is sharded along `out`. If W is sharded along the other dim, the part is replicated,
// and each rank computes a partial gradient.
bool gradient_sum(AdapterPart part, const TpUse& use);

}  // namespace am::model
