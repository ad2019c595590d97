// am-plan lsp: a language server for plan files, on stdin and stdout.
#include <iostream>

#include "am/base/error.h"
#include "commands.h"
#include "lsp/frames.h"
#include "lsp/server.h"
#include "options.h"

namespace am_plan {
namespace {

// Serves until the client sends the notification exit, stdin ends or stdout cannot be written.
// Returns kFine if the client has sent the request shutdown, otherwise kInvalid. Throws
// Error(kFormat) for a malformed frame.
int run_lsp() {
  lsp::Server server([](const am::Json& message) { am_apps::print_file(lsp::frame_of(message)); });
  while (!server.ended() && std::cout) {
    const auto text = lsp::read_frame(std::cin);
    if (!text) break;
    server.receive(*text);
  }
  if (!server.ended()) std::cerr << "am-plan lsp: the input ended without the notification exit\n";
  return server.shut_down() ? am_apps::kFine : am_apps::kInvalid;
}

Run declare_lsp(CLI::App&, SharedOptions&) {
  return [](const Output&) { return run_lsp(); };
}

}  // namespace

const Command kLspCommand = {
    .name = "lsp",
    .summary = "Serve diagnostics, hover, completion and fixes to editors",
    .example = "am-plan lsp",
    .declare = declare_lsp,
};

}  // namespace am_plan
