// The precompiled header of every source that includes libtorch: about 470 MB, and 11-15 s a file become 4-7 s.
// Kept narrow on purpose: torch/torch.h or ProcessGroupGloo.hpp here would cost every file more than it saves the few that want them.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
