#include "am/inspect/commands/registry.h"

#include <array>

namespace am::inspect {
namespace {

// Commands that a program without libtorch can run. `help` is not one of them because it lists all
// commands, and `source` is not because its file may contain any command.
constexpr std::array kOwnCommands = {
    &kInfoCommand,  &kMeshCommand,   &kLsCommand,     &kTreeCommand,  &kShowCommand,
    &kWhereCommand, &kMemoryCommand, &kVerifyCommand, &kFitsCommand,  &kLetCommand,
    &kModeCommand,  &kOutputCommand, &kReportCommand, &kSortCommand,  &kHeadCommand,
    &kTailCommand,  &kGrepCommand,   &kSelectCommand, &kCountCommand, &kQuitCommand,
};

std::span<const Command* const>& table() {
  static std::span<const Command* const> commands = kOwnCommands;
  return commands;
}

}  // namespace

std::span<const Command* const> commands() { return table(); }

void use_commands(std::span<const Command* const> commands) { table() = commands; }

}  // namespace am::inspect
