// Precompiled header of every source that includes libtorch: 2-5 s per file instead of 11-15 s.
// Deliberately narrow: g++ instantiates the pending templates of a precompiled header in every
// source, so each header here adds to all of them. torch/csrc/autograd/custom_function.h would add
// 1.2 s per file, torch/torch.h more.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
