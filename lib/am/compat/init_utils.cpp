#include "am/compat/init_utils.h"

#include "am/base/text.h"
#include "am/compat/distributed_utils.h"

namespace am::compat {

namespace {

// Returns this rank's number, or the number of ranks, before the job is joined. If RANK or
// WORLD_SIZE is set, returns the value of `variable`, or `otherwise` if `variable` is not set. If
// RANK and WORLD_SIZE are both unset, returns the member `detected` of the environment that another
// launcher (Slurm, MPI, Flux) describes, or `otherwise` if no launcher has set variables.
int64_t before_joining(const Distributed& dist, const std::string& variable,
                       int64_t launch::RankEnvironment::*detected, int64_t otherwise) {
  if (!dist.variables().get("RANK") && !dist.variables().get("WORLD_SIZE")) {
    const auto here = dist.detect();
    return here ? (*here).*detected : otherwise;
  }
  return integer_variable(dist.variables(), variable, otherwise);
}

}  // namespace

DistInfo initialize_distributed(Distributed& dist, const std::string& backend,
                                std::chrono::milliseconds timeout) {
  const bool first = get_rank_safe(dist) == 0;
  if (dist.is_initialized()) {
    if (first) dist.log(LogLevel::kInfo, "the job is joined already, nothing to initialize");
  } else {
    const int64_t ranks = get_world_size_safe(dist);
    if (first) dist.log(LogLevel::kInfo, cat("> initializing a job of ", ranks, " ranks"));
    runtime::parse_backend(backend);
    // A single process does not communicate: the backend only determines its device. On a machine
    // without a GPU, a single process therefore uses Gloo, whatever the requested backend is.
    const bool needed = ranks > 1 || backend_supports_cuda(dist);
    const runtime::WorldOptions options = {.timeout = timeout,
                                           .backend = needed ? backend : "gloo"};
    if (ranks == 1) {
      dist.join({.local_rank = get_local_rank_preinit(dist), .launcher = "local"}, options);
    } else {
      dist.join(options);
    }
    dist.world().group().barrier();
  }
  const runtime::World& world = dist.world();
  return {backend, world.rank(), world.size(), world.device(), world.rank() == 0};
}

void destroy_global_state(Distributed& dist) { dist.leave(); }

int64_t get_local_rank_preinit(const Distributed& dist) {
  return integer_variable(dist.variables(), "LOCAL_RANK", 0);
}

int64_t get_local_world_size_preinit(const Distributed& dist) {
  return integer_variable(dist.variables(), "LOCAL_WORLD_SIZE", 1);
}

int64_t get_rank_safe(const Distributed& dist) {
  return dist.is_initialized() ? dist.world().rank()
                               : before_joining(dist, "RANK", &launch::RankEnvironment::rank, 0);
}

int64_t get_world_size_safe(const Distributed& dist) {
  return dist.is_initialized()
             ? dist.world().size()
             : before_joining(dist, "WORLD_SIZE", &launch::RankEnvironment::world_size, 1);
}

}  // namespace am::compat
