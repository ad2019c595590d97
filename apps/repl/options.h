// Parses the command line of am-repl.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/inspect/progress.h"
#include "common/output.h"

namespace am_repl {

struct Options {
  std::string target;                   // path or tcp:// address of the model or job to inspect
  std::vector<std::string> more_runs;   // further run folders, for `compare` and `plot`
  std::optional<std::string> commands;  // commands given with -c
  std::optional<std::string> script;    // file of commands given with -f
  std::string tokenizer;  // "bytes" or the path of a tokenizer; empty: that of the target
  std::string token;      // file with the secret for attaching to a job at tcp://
  std::vector<am::config::Override>
      overrides;            // values of the option --set, which change keys of a plan
  int64_t nproc = 0;        // number of ranks of a plan; 0: the plan's world size
  bool write = false;       // whether commands may change a running job
  bool keep_going = false;  // run the rest of a script after a failed command
  bool force = false;       // run commands that may exceed this machine's memory
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  am_apps::Output output;
  // Prints text of a command while it runs; null with --json, or if stdout is not a terminal that
  // can redraw lines.
  std::shared_ptr<am::inspect::LiveText> live_text;
  // Progress of the running command, which the progress line shows; null if stderr is not a
  // terminal that can redraw lines.
  std::shared_ptr<am::inspect::Progress> progress;
};

// Parses the command line of am-repl. Returns nothing on success. Otherwise returns the exit
// status: 0 after printing a text such as the help or the list of targets, 2 for a wrong command
// line, or if there are no targets to list. `libraries` returns the text about libtorch and NCCL
// that --version prints.
std::optional<int> parse_options(int argc, char** argv,
                                 const std::function<std::string()>& libraries, Options& options);

}  // namespace am_repl
