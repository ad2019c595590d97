#include "job/plan_file.h"

namespace am_run {

using namespace am;

std::optional<job::Job> open_job(const Options& options, int64_t world_size,
                                 const layout::CudaProbe& why_no_cuda, Diagnostics& found) {
  return job::open_job({.file = options.plan,
                        .overrides = options.overrides,
                        .world_size = world_size,
                        .plugins = options.plugins,
                        .why_no_cuda = options.dry_run ? nullptr : why_no_cuda},
                       found);
}

std::filesystem::path run_root(const Options& options) {
  if (!options.run_dir.empty()) return std::filesystem::absolute(options.run_dir);
  const std::filesystem::path job = options.exec()
                                        ? std::filesystem::path(options.command.front()).filename()
                                        : std::filesystem::path(options.plan).stem();
  return std::filesystem::absolute("runs") / job;
}

}  // namespace am_run
