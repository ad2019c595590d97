// Declares the am-repl commands that need no values of tensors. The files of this folder define
// them.
#pragma once

#include "am/inspect/command.h"

namespace am::inspect {

extern const Command kHelpCommand;
extern const Command kInfoCommand;
extern const Command kMeshCommand;
extern const Command kLsCommand;
extern const Command kTreeCommand;
extern const Command kShowCommand;
extern const Command kWhereCommand;
extern const Command kMemoryCommand;
extern const Command kVerifyCommand;
extern const Command kFitsCommand;
extern const Command kLetCommand;
extern const Command kModeCommand;
extern const Command kOutputCommand;
extern const Command kSourceCommand;
extern const Command kReportCommand;
extern const Command kSortCommand;
extern const Command kHeadCommand;
extern const Command kTailCommand;
extern const Command kGrepCommand;
extern const Command kSelectCommand;
extern const Command kCountCommand;
extern const Command kQuitCommand;
// Commands that a running job implements, and `detach`; defined in live.cpp.
extern const Command kStatusCommand;
extern const Command kRanksCommand;
extern const Command kStackCommand;
extern const Command kPauseCommand;
extern const Command kContinueCommand;
extern const Command kBreakCommand;
extern const Command kWatchCommand;
extern const Command kTripwireCommand;
extern const Command kSaveCommand;
extern const Command kDetachCommand;

}  // namespace am::inspect
