// Parameters that a plan selects. By globs: frozen ones, ones without weight decay, ones that FSDP
// ignores, and ones that FSDP shards on a dim other than 0. By the optimizer: ones that are updated
// as whole matrices (Muon).
#pragma once

#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/layout/layout.h"

namespace am::layout {

// Whether one of model.freeze_params matches the parameter's name.
bool is_frozen(const config::Plan& plan, std::string_view parameter);

// Sets `trainable`, `decays`, `orthogonalized`, `ignored`, `fsdp` and `fsdp_dim` of the layout's
// parameters, whose tp and FSDP cuts must be set. `*` in a glob also matches dots. Adds
// "model.freeze_params", "optimizer.no_decay", "strategy.ignored_params" and
// "strategy.shard_placement".
void choose_parameters(const config::Plan& plan, Layout& layout, Diagnostics& found);

}  // namespace am::layout
