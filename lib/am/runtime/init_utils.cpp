#include "am/runtime/init_utils.h"

#include "am/base/text.h"
#include "am/runtime/distributed_utils.h"

namespace am::runtime {

DistInfo initialize_distributed(Distributed& dist, const std::string& backend,
                                std::chrono::milliseconds timeout) {
  const bool first = get_rank_safe(dist) == 0;
  if (dist.is_initialized()) {
    if (first) dist.log(LogLevel::kInfo, "the job is joined already, nothing to initialize");
  } else {
    const int64_t ranks = get_world_size_safe(dist);
    if (first) dist.log(LogLevel::kInfo, cat("> initializing a job of ", ranks, " ranks"));
    parse_backend(backend);
    // One process talks to nobody: it needs the engine for its device alone.
    const bool needed = ranks > 1 || backend_supports_cuda(dist);
    dist.join({.timeout = timeout, .backend = needed ? backend : "gloo"});
    dist.world().group().barrier();
  }
  const World& world = dist.world();
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
                               : integer_variable(dist.variables(), "RANK", 0);
}

int64_t get_world_size_safe(const Distributed& dist) {
  return dist.is_initialized() ? dist.world().size()
                               : integer_variable(dist.variables(), "WORLD_SIZE", 1);
}

}  // namespace am::runtime
