// The table of am-plan's commands, each defined in a separate file.
#pragma once

#include <span>

#include "command.h"

namespace am_plan {

// Returns the commands in the order of --help.
std::span<const Command* const> commands();

extern const Command kCheckCommand;
extern const Command kShowCommand;
extern const Command kModelCommand;
extern const Command kShardsCommand;
extern const Command kTpCommand;
extern const Command kMemoryCommand;
extern const Command kCostCommand;
extern const Command kSearchCommand;
extern const Command kReportCommand;
extern const Command kScheduleCommand;
extern const Command kDiffCommand;
extern const Command kExportCommand;
extern const Command kImportCommand;
extern const Command kRulesCommand;
extern const Command kExplainCommand;
extern const Command kSchemaCommand;
extern const Command kCompletionsCommand;
extern const Command kManCommand;

}  // namespace am_plan
