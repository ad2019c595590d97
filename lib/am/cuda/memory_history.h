// Implements tensor::MemoryHistory with the memory snapshots of PyTorch's CUDA allocator.
#pragma once

#include "am/tensor/memory_history.h"

namespace am::cuda {

const tensor::MemoryHistory& memory_history();

}  // namespace am::cuda
