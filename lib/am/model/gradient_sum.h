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
  bool heads_are_cut = false;      // of those that a norm over heads acts on
};

// Of the module's weight, or of its bias.
bool gradient_sum(const ModuleSpec& module, bool bias, const TpUse& use);
// Of its adapter's A or B, which are cut where W is cut: A as W's columns, B as W's rows. What is
// whole beside the other's piece has a part of its gradient on each rank.
bool gradient_sum(AdapterPart part, const TpUse& use);

}  // namespace am::model
