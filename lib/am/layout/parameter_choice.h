// Marks the parameters that a plan selects. Globs select parameters that are frozen, that have
// their own optimizer options, that FSDP ignores, or that FSDP shards on a dim other than 0. The
// optimizer "muon" selects the matrices that it updates, and lora.quantize_base the weights stored
// in NF4.
#pragma once

#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/layout/layout.h"

namespace am::layout {

// Whether one of model.freeze_params matches the parameter's name.
bool is_frozen(const config::Plan& plan, std::string_view parameter);

// Sets `quantized`, `optimizer` and `orthogonalized` of the layout's parameters, and clears
// `trainable` of frozen parameters. Under fsdp2, sets `fsdp_dim` of the parameters that
// strategy.shard_placement selects. Also under fsdp2, sets `ignored` and clears `fsdp` of the
// parameters that strategy.ignored_params selects. The layout must already contain the tp sharding
// and the default FSDP sharding. `*` in a glob also matches dots.
// Adds errors "model.freeze_params", "optimizer.no_decay", "optimizer.group",
// "strategy.ignored_params", "strategy.shard_placement" and "lora.quantize_base" to `found`.
void choose_parameters(const config::Plan& plan, Layout& layout, Diagnostics& found);

}  // namespace am::layout
