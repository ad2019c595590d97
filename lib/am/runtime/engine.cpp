#include "am/runtime/engine.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/gloo_engine.h"

namespace am::runtime {

Engines make_engines(const std::string& backend, const launch::RankEnvironment& here) {
  const BackendSpec spec = parse_backend(backend);
  Engines engines;
  if (!spec.cpu.empty()) engines.cpu = make_gloo_engine(here);
  if (!spec.cuda.empty()) {
    if (const auto problem = why_no_cuda()) {
      throw Error(ErrorKind::kRuntime, cat("backend \"", backend, "\": ", problem->what),
                  problem->help);
    }
    engines.cuda = load_cuda_plugin().make_nccl_engine(here);
  }
  return engines;
}

}  // namespace am::runtime
