// am-repl's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/term/style.h"

namespace am_repl {

struct Options {
  std::string target;
  std::optional<std::string> commands;  // -c
  std::optional<std::string> script;    // -f
  bool json = false;
  std::string tokenizer;
  std::vector<am::config::Override> overrides;
  int64_t nproc = 0;
  am::term::ColorMode color = am::term::ColorMode::kAuto;
};

// Nothing means that help or the version was printed (status 0) or that the line was wrong (status
// 2, said on stderr).
std::optional<Options> parse_options(int argc, char** argv, int& status);

}  // namespace am_repl
