// Engines over a process group that another part of the program has created, for example PyTorch's
// default process group. The engines open no connections.
//
//   const auto group = c10d::resolve_process_group("0");
//   World world = World::meet_in(here, group->getStore(), {}, engines_of(group, device));
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "am/runtime/engine.h"

namespace am::runtime {

// Returns engines that use the backends of `group`. An engine is null if `group` has no backend for
// the engine's kind of device. Engine::connect() accepts only a group in which the number of ranks
// and this rank's index are those of `group`; otherwise throws Error(kInternal). `group` is null
// in a world of one rank, which needs no communicator. `device` is the compute device of this rank.
// Throws Error(kUsage) if `group` has no backend for host tensors and none for tensors on `device`.
Engines engines_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10::Device device);

}  // namespace am::runtime
