#include "memory.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/backend.h"
#include "am/layout/backend_choice.h"
#include "am/predict/memory/host_memory.h"
#include "starter/torch_programs.h"

namespace am_run {

using namespace am;

void require_memory(const Options& options, const job::Job& job, const launch::MemoryInfo& memory) {
  if (options.force) return;
  const std::string backend = layout::backend_of(job.plan, &am_apps::why_no_cuda);
  if (config::parse_backend(backend).serves_gpus()) return;
  const int64_t here = std::max<int64_t>(1, job.layout.mesh.world_size() / options.nnodes);
  const predict::RankRange ranks{options.node_rank * here, here};
  const int64_t wanted = predict::training_bytes(job.plan, job.model, job.layout, ranks);
  const auto shortage = launch::memory_shortage(wanted, memory);
  if (!shortage) return;
  throw Error(ErrorKind::kPlan, cat("the job ", *shortage, "; no rank was started"),
              "am-plan memory shows what needs it; --force starts the job nevertheless");
}

}  // namespace am_run
