// Declares the three parts of am-repl's command table, and the functions of commands that read no
// values of tensors. The other functions are declared in values/commands/functions.h.
#pragma once

#include <span>

#include "am/inspect/command.h"

namespace am::inspect {

// Options that several commands share.
inline constexpr Option kReplaceFile = {"--force", "", "replace an existing file"};
inline constexpr Option kFlat = {
    "--flat", "", "a row for each tensor; on a terminal, the default is one for equal layers"};
inline constexpr Option kForceModel = {"--force", "",
                                       "even if the model does not fit into this machine's memory"};

std::span<const Command> tensor_rows();
std::span<const Command> model_rows();
std::span<const Command> session_rows();

RankFunction run_info, run_mesh, run_ls, run_tree, run_show, run_where, run_memory, run_verify,
    run_fits, run_let, run_tokens;
ConsoleFunction run_mode, run_output, run_source, run_report, run_dashboard;
RowsFunction sort_rows, head_rows, tail_rows, grep_rows, where_rows, select_fields, count_rows;
RunsFunction run_metrics, plot_metrics, run_compare;
PictureFunction plot_rows;
TextFunction tell_help, tell_quit;

}  // namespace am::inspect
