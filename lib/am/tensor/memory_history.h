// The history of a GPU's allocations, which PyTorch's caching allocator records. The CUDA plugin
// registers the functions when it is loaded.
//
//   if (const MemoryHistory* history = memory_history()) history->begin();
//   ...                                                        // allocations are recorded
//   const std::string snapshot = memory_history()->end();
#pragma once

#include <string>

namespace am::tensor {

struct MemoryHistory {
  // Starts to record allocations and frees, with the C++ call stack of each.
  void (*begin)();
  // Ends the recording. Returns the recorded events and the state of all segments in the format of
  // torch.cuda.memory._dump_snapshot(), which https://pytorch.org/memory_viz shows.
  std::string (*end)();
};

// Returns null if no CUDA plugin is loaded.
const MemoryHistory* memory_history();
// Called once, by the plugin. `history` must outlive the process's use of the GPU.
void register_memory_history(const MemoryHistory& history);

}  // namespace am::tensor
