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
  std::string token;  // the file that a job at tcp:// is shown
  std::vector<am::config::Override> overrides;
  int64_t nproc = 0;
  bool write = false;  // what changes a job that runs is allowed
  bool force = false;  // what does not fit into this machine's memory is tried all the same
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  am_apps::Output output;
  // Of commands, drawn on a terminal; null: there is none.
  std::shared_ptr<am::inspect::Progress> progress;
};

// Nothing: go on with `options`. Otherwise the exit status: 0 after help or version, 2 after a
// wrong line. `libraries`: what --version says of libtorch and NCCL.
std::optional<int> parse_options(int argc, char** argv,
                                 const std::function<std::string()>& libraries, Options& options);

// These tell of all commands: only am-repl-values knows them.
inline constexpr const char* kManFlag = "--man";
inline constexpr const char* kSchemaFlag = "--schema";

}  // namespace am_repl
