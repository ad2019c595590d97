// am-run PLAN: launches the ranks of a plan on this machine, or is one of them under a launcher.
#include <iostream>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/launch/environment.h"
#include "am/term/caret.h"
#include "job.h"
#include "options.h"

int main(int argc, char** argv) {
  int status = 0;
  const auto options = am_run::parse_options(argc, argv, status);
  if (!options) return status;
  try {
    am::Diagnostics found;
    const auto here = am::launch::detect_environment(am::launch::process_environment(), found);
    if (!found.ok()) {
      std::cerr << am::term::render(found, am::term::Style::of(2, options->color));
      return 2;
    }
    if (here) return am_run::run_rank(*options, *here);
    return am_run::run_launcher(*options, std::vector<std::string>(argv + 1, argv + argc));
  } catch (const am::Error& error) {
    std::cerr << "am-run: " << error.what() << "\n";
    if (!error.hint().empty()) std::cerr << "help: " << error.hint() << "\n";
    return error.exit_status();
  }
}
