// Decides whether the gradient of a parameter must be summed (all-reduced) over the tp ranks.
//
// The loss is divided by the number of labels in the global batch, so gradients are sums over
// ranks. A gradient is summed over exactly those ranks that compute different parts of it. Over tp
// that is the case if a parameter is replicated, but each rank applies it only to some tokens
// (sequence parallelism) or to some heads. In all other cases no sum is needed: a sharded parameter
// belongs to one rank, and a replicated parameter that is applied to all tokens has equal gradients
// on all ranks. A missing sum lets the replicas diverge; a superfluous sum makes the gradient tp
// times too large.
#pragma once

#include <optional>

#include "am/model/inventory.h"
#include "am/model/spec.h"
#include "am/model/tp_plan.h"

namespace am::model {

// How a TP plan uses a module.
struct TpUse {
  std::optional<TpStyle> style;    // style in which the module is cut; absent: it is replicated
  bool sequence_parallel = false;  // hidden states between modules are sharded over the sequence
  // Each rank applies routers and experts to its part of the tokens, even if the hidden states
  // between other modules are not sharded over the sequence.
  bool deals_tokens = false;
  // For a norm over queries or keys: its input, the heads, is sharded over tp.
  bool heads_are_cut = false;
  // For a norm over queries or keys: it has weights for each head, which are sharded with the
  // heads.
  bool spans_heads = false;
};

// Returns how many neighbouring tp ranks store the same key head, because the model has fewer key
// heads (`heads`) than there are ranks. Each of these ranks computes a part of that head's
// gradient. Returns 1 if no two ranks share a key head, if tp is not a multiple of `heads`, or if
// heads == 0 (the parameter is not sharded by heads).
int64_t ranks_of_a_head(int64_t tp, int64_t heads);

// Whether the gradient of the module's weight, or of its bias, must be summed over tp.
bool gradient_sum(const ModuleSpec& module, bool bias, const TpUse& use);
// Whether the gradient of the matrix A or B of a LoRA adapter must be summed over tp. `use` is that
// of the adapted matrix W [out, in]. A is sharded if W is sharded along `in`, and B if W is sharded
// along `out`. The other one is replicated, with a partial gradient on each rank.
bool gradient_sum(AdapterPart part, const TpUse& use);

}  // namespace am::model
