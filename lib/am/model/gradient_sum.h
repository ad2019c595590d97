// Who has the whole gradient of a parameter under tensor parallelism.
//
// The loss is divided by the labels of the global batch, so that gradients are sums. A parameter's
// gradient is summed over exactly those ranks whose work on it differs: over tp when a whole
// parameter sees only its rank's tokens (sequence parallelism), or only its rank's heads. A cut
// parameter's piece is nobody else's, and a whole one on whole tokens has equal gradients
// everywhere. Without the sum the replicas drift apart; with one too many they take steps tp times
// too long.
#pragma once

#include <optional>

#include "am/model/inventory.h"
#include "am/model/spec.h"
#include "am/model/tp_plan.h"

namespace am::model {

// What a tp plan does with a module.
struct TpUse {
  std::optional<TpStyle> style;    // nothing: whole
  bool sequence_parallel = false;  // hidden states between modules are token shards
  bool deals_tokens = false;   // routers and experts work on token shards, whatever the others do
  bool heads_are_cut = false;  // of those that a norm over heads acts on
  bool spans_heads = false;    // that norm has a weight for each head, cut as they are
};

// How many neighbouring tp ranks hold the same of `heads` key heads: those whose query heads read
// them. Each has a part of their gradient. 1: a head is one rank's; so where the numbers do not
// divide each other, or 0 heads are handed out.
int64_t ranks_of_a_head(int64_t tp, int64_t heads);

// Of the module's weight, or of its bias: whether all tp ranks have parts of its gradient.
bool gradient_sum(const ModuleSpec& module, bool bias, const TpUse& use);
// Of its adapter's A or B, which are cut where W is cut: A as W's columns, B as W's rows. What is
// whole beside the other's piece has a part of its gradient on each rank.
bool gradient_sum(AdapterPart part, const TpUse& use);

}  // namespace am::model
