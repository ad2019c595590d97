#include "am/inspect/commands/registry.h"

#include <array>

namespace am::inspect {

std::span<const Command* const> commands() {
  static constexpr std::array kCommands = {
      &kInfoCommand,     &kMeshCommand,    &kLsCommand,       &kTreeCommand,
      &kShowCommand,     &kStatsCommand,   &kNormsCommand,    &kNanCommand,
      &kChecksumCommand, &kDeadCommand,    &kOptimCommand,    &kTopCommand,
      &kWhereCommand,    &kHistCommand,    &kHeatCommand,     &kPlotCommand,
      &kPrintCommand,    &kMemoryCommand,  &kUnshardCommand,  &kReshardCommand,
      &kLossCommand,     &kLogprobCommand, &kGenerateCommand, &kExportCommand,
      &kVerifyCommand,   &kDiffCommand,    &kSameCommand,     &kDriftCommand,
      &kFitsCommand,     &kSetCommand,     &kLetCommand,      &kModeCommand,
      &kOutputCommand,   &kSourceCommand,  &kReportCommand,   &kSortCommand,
      &kHeadCommand,     &kTailCommand,    &kGrepCommand,     &kSelectCommand,
      &kCountCommand,    &kStatusCommand,  &kRanksCommand,    &kCollectivesCommand,
      &kStackCommand,    &kPauseCommand,   &kStepCommand,     &kContinueCommand,
      &kBreakCommand,    &kWatchCommand,   &kTripwireCommand, &kSaveCommand,
      &kDetachCommand,   &kHelpCommand,    &kQuitCommand,
  };
  return kCommands;
}

}  // namespace am::inspect
