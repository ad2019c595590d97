// The precompiled header of every source that includes libtorch: 11-15 s a file become 2-5 s.
// Narrow on purpose. g++ instantiates a precompiled header's pending templates anew in every source, so each header here
// costs all of them: torch/csrc/autograd/custom_function.h would be 1.2 s a file, torch/torch.h still more.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
