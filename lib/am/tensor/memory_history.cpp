#include "am/tensor/memory_history.h"

#include <atomic>

namespace am::tensor {
namespace {

std::atomic<const MemoryHistory*> recorder = nullptr;

}  // namespace

const MemoryHistory* memory_history() { return recorder; }

void register_memory_history(const MemoryHistory& history) { recorder = &history; }

}  // namespace am::tensor
