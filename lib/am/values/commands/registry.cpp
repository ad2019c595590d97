#include "am/values/commands/registry.h"

#include <array>

#include "am/inspect/commands/registry.h"

namespace am::values {
namespace {

// All commands, in the order in which `help` lists them.
constexpr std::array kAllCommands = {
    &kInfoCommand,        &kMeshCommand,    &kLsCommand,       &kTreeCommand,    &kShowCommand,
    &kStatsCommand,       &kNormsCommand,   &kCalcCommand,     &kNanCommand,     &kChecksumCommand,
    &kDeadCommand,        &kOptimCommand,   &kGradCommand,     &kTopCommand,     &kWhereCommand,
    &kHistCommand,        &kHeatCommand,    &kPlotCommand,     &kPrintCommand,   &kMemoryCommand,
    &kUnshardCommand,     &kReshardCommand, &kLossCommand,     &kLogprobCommand, &kGenerateCommand,
    &kExportCommand,      &kVerifyCommand,  &kDiffCommand,     &kSameCommand,    &kDriftCommand,
    &kFitsCommand,        &kSetCommand,     &kLetCommand,      &kModeCommand,    &kOutputCommand,
    &kSourceCommand,      &kReportCommand,  &kSortCommand,     &kHeadCommand,    &kTailCommand,
    &kGrepCommand,        &kSelectCommand,  &kCountCommand,    &kStatusCommand,  &kRanksCommand,
    &kCollectivesCommand, &kStackCommand,   &kPauseCommand,    &kStepCommand,    &kContinueCommand,
    &kBreakCommand,       &kWatchCommand,   &kTripwireCommand, &kSaveCommand,    &kDetachCommand,
    &kHelpCommand,        &kQuitCommand,
};

// Registers the commands in every program that links this library.
[[maybe_unused]] const bool kInUse = [] {
  use_commands(kAllCommands);
  return true;
}();

}  // namespace
}  // namespace am::values
