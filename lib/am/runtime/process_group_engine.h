// Engines over a process group that another part of the program has created, for example PyTorch's
// default process group. The engines open no connections.
//
//   const auto group = c10d::resolve_process_group("0");
//   World world = World::meet_in(here, group->getStore(), {}, engines_of(group, device));
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "am/runtime/engine.h"

namespace am::runtime {

// Returns engines whose only communicator is that of `group`; connecting a group of other ranks
// throws Error(kInternal). `group` is null in a world of one rank, which needs no communicator.
// Otherwise an engine is null if the group has no backend for its kind of device.
// `device` is the compute device of this rank. Throws Error(kUsage) if the group has a backend
// neither for host tensors nor for tensors on `device`.
Engines engines_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10::Device device);

}  // namespace am::runtime
