// Precompiled header of every source that includes libtorch. It reduces compilation from 11-15 s to
// 2-5 s per file. It includes few headers: g++ instantiates the pending templates of a precompiled
// header in every source, so each further header slows every source.
// torch/csrc/autograd/custom_function.h would add 1.2 s per file, and torch/torch.h more.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
