// Declares the functions of the commands that read values of tensors. Names, operands and help of
// the commands are in inspect/commands/rows_*.cpp.
#pragma once

#include <string_view>

#include "am/inspect/command.h"
#include "am/inspect/pick.h"
#include "am/inspect/rows.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Names of namespace inspect that most files of this folder use.
using inspect::Arguments;
using inspect::number_or_null;
using inspect::Picked;
using inspect::RankFunction;
using inspect::Result;
using inspect::RowKind;
using inspect::Rows;

RankFunction run_stats, run_norms, run_calc, run_nan, run_checksum, run_dead, run_optim, run_grad,
    run_top, run_hist, run_heat, run_plot, run_print, run_unshard, run_reshard, run_loss,
    run_logprob, run_generate, run_export, run_diff, run_same, run_drift, run_set, run_collectives,
    run_step, run_acts, run_experts, run_attention;

// Returns the function of the command with this name, or null if the command reads no values.
RankFunction* value_function(std::string_view command);

}  // namespace am::values
