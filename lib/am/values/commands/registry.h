// The am-repl commands that read values. Their table rows and functions are in the files of this
// folder.
#pragma once

#include "am/inspect/command.h"
#include "am/values/parameter_view.h"

namespace am::values {

extern const Command kStatsCommand;
extern const Command kHistCommand;
extern const Command kPrintCommand;
extern const Command kNormsCommand;
extern const Command kCalcCommand;
extern const Command kNanCommand;
extern const Command kChecksumCommand;
extern const Command kDeadCommand;
extern const Command kOptimCommand;
extern const Command kGradCommand;
extern const Command kStepCommand;
extern const Command kCollectivesCommand;
extern const Command kTopCommand;
extern const Command kDriftCommand;
extern const Command kUnshardCommand;
extern const Command kReshardCommand;
extern const Command kLossCommand;
extern const Command kLogprobCommand;
extern const Command kGenerateCommand;
extern const Command kExportCommand;
extern const Command kDiffCommand;
extern const Command kSameCommand;
extern const Command kSetCommand;
extern const Command kHeatCommand;
extern const Command kPlotCommand;

}  // namespace am::values
