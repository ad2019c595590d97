// am-repl's command line.
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
  std::string target;
  std::optional<std::string> commands;  // -c
  std::optional<std::string> script;    // -f
  std::string tokenizer;
  std::string token;  // file with the token of a job at tcp://
  std::vector<am::config::Override> overrides;
  int64_t nproc = 0;
  bool write = false;  // allow commands that change a running job
  bool force = false;  // try commands even if they do not fit into this machine's memory
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  am_apps::Output output;
  // Progress of commands, shown on a terminal; null: not shown.
  std::shared_ptr<am::inspect::Progress> progress;
};

// Returns nothing if parsing succeeded; otherwise the exit status: 0 after help or version, 2 after
// a wrong line. `libraries`: text about libtorch and NCCL for --version.
std::optional<int> parse_options(int argc, char** argv,
                                 const std::function<std::string()>& libraries, Options& options);

// Flags whose output covers all commands, which only am-repl-values knows.
inline constexpr const char* kManFlag = "--man";
inline constexpr const char* kSchemaFlag = "--schema";

}  // namespace am_repl
