// Parameters that a plan singles out: by globs those that are not trained, those that do not decay,
// those that FSDP leaves whole, and those that it cuts on another dimension than 0; and by its
// optimizer those that are updated as whole matrices.
#pragma once

#include <string_view>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/planner/layout.h"

namespace am::planner {

// Whether one of model.freeze_params matches the parameter's name.
bool is_frozen(const config::Plan& plan, std::string_view parameter);

// Sets `trainable`, `decays`, `orthogonalized`, `ignored`, `fsdp` and `fsdp_dim` of the layout's
// parameters, whose tp and FSDP cuts are there. A glob's `*` also matches dots. Adds
// "model.freeze_params", "optimizer.no_decay", "strategy.ignored_params" and
// "strategy.shard_placement".
void choose_parameters(const config::Plan& plan, Layout& layout, Diagnostics& found);

}  // namespace am::planner
