// Records the history of a GPU's allocations by PyTorch's caching allocator. The CUDA plugin
// registers the functions that begin and end a recording when it is loaded.
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

// Returns the registered functions; null if no CUDA plugin is loaded.
const MemoryHistory* memory_history();
// Called once, by the plugin. `history` must outlive the process's use of the GPU.
void register_memory_history(const MemoryHistory& history);

}  // namespace am::tensor
