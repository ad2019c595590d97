// Context parallelism of a plan: how sequences are cut, and what attention's messages carry.
// am-plan predicts with what the runtime does.
#pragma once

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/mesh/sequence_cut.h"

namespace am::planner {

mesh::SequenceOrder sequence_order(const config::Plan& plan);

// Of sequences of train.seq_len, of which sequence parallelism cuts each rank's part over tp, or
// does not.
mesh::SequenceCut sequence_cut(const config::Plan& plan, const mesh::MeshSizes& sizes,
                               bool sequence_parallel);

}  // namespace am::planner
