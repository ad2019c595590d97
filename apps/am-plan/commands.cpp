#include "commands.h"

#include <array>

namespace am_plan {

std::span<const Command* const> commands() {
  static constexpr std::array kCommands = {
      &kCheckCommand,    &kShowCommand,   &kModelCommand,  &kShardsCommand,      &kTpCommand,
      &kMemoryCommand,   &kCostCommand,   &kJobCommand,    &kSearchCommand,      &kReportCommand,
      &kScheduleCommand, &kDiffCommand,   &kExportCommand, &kImportCommand,      &kRulesCommand,
      &kExplainCommand,  &kSchemaCommand, &kLspCommand,    &kCompletionsCommand, &kManCommand,
  };
  return kCommands;
}

}  // namespace am_plan
