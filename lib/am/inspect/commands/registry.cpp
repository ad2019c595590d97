#include "am/inspect/commands/registry.h"

#include <array>

namespace am::inspect {

std::span<const Command* const> commands() {
  static constexpr std::array kCommands = {
      &kInfoCommand,    &kMeshCommand,   &kLsCommand,       &kTreeCommand,        &kShowCommand,
      &kStatsCommand,   &kHistCommand,   &kPrintCommand,    &kMemoryCommand,      &kUnshardCommand,
      &kReshardCommand, &kLossCommand,   &kLogprobCommand,  &kGenerateCommand,    &kExportCommand,
      &kVerifyCommand,  &kDiffCommand,   &kFitsCommand,     &kSetCommand,         &kHelpCommand,
      &kQuitCommand,    &kStatusCommand, &kRanksCommand,    &kCollectivesCommand, &kStackCommand,
      &kPauseCommand,   &kStepCommand,   &kContinueCommand, &kBreakCommand,       &kSaveCommand,
      &kDetachCommand,
  };
  return kCommands;
}

}  // namespace am::inspect
