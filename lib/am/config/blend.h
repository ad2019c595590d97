// Reads Megatron's blends: lists in which weights and datasets alternate, for example
// ["0.7", "a", "0.3", "b"]. A dataset is given by its prefix, the path without .bin or .idx.
#pragma once

#include "am/base/diagnostic.h"
#include "am/config/plan.h"

namespace am::config {

// If data.kind is "megatron" and data.path is a blend, moves the blend's datasets and weights to
// data.source. data.path is a blend if it starts with a number, or if it names one .json file. The
// file must contain the list, or an object with the list under "train". Adds an error "plan.value"
// for a file or a list of another form.
void settle_blend(Plan& plan, Diagnostics& found);

}  // namespace am::config
