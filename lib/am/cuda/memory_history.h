// Implements tensor::MemoryHistory with PyTorch's caching allocator.
#pragma once

#include "am/tensor/memory_history.h"

namespace am::cuda {

const tensor::MemoryHistory& memory_history();

}  // namespace am::cuda
