#include "am/runtime/engine.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/gloo_engine.h"
#include "am/runtime/nccl_environment.h"
#include "am/runtime/staged_engine.h"

namespace am::runtime {

Engines make_engines(const std::string& backend, const launch::RankEnvironment& here) {
  const BackendSpec spec = parse_backend(backend);
  Engines engines;
  if (spec.serves_gpus()) {
    if (const auto problem = why_no_cuda()) {
      throw Error(ErrorKind::kRuntime, cat("backend \"", backend, "\": ", problem->what),
                  problem->help);
    }
  }
  if (spec.uses_nccl()) set_nccl_defaults();
  const bool staged = spec.serves_gpus() && !spec.uses_nccl();
  const auto gloo = staged || !spec.cpu.empty() ? make_gloo_engine(here) : nullptr;
  if (!spec.cpu.empty()) engines.cpu = gloo;
  if (staged) engines.accelerator = make_staged_engine(gloo, load_cuda_plugin().share_gpu(here));
  if (spec.uses_nccl()) engines.accelerator = load_cuda_plugin().make_nccl_engine(here);
  return engines;
}

}  // namespace am::runtime
