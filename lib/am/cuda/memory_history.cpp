#include "am/cuda/memory_history.h"

#include <torch/csrc/cuda/memory_snapshot.h>

#include <optional>

namespace am::cuda {
namespace {

void begin() { torch::cuda::_record_memory_history("all", "all", "all"); }

std::string end() {
  std::string snapshot = torch::cuda::_memory_snapshot_pickled();
  torch::cuda::_record_memory_history(std::optional<std::string>());
  return snapshot;
}

}  // namespace

const tensor::MemoryHistory& memory_history() {
  static constexpr tensor::MemoryHistory kHistory = {.begin = begin, .end = end};
  return kHistory;
}

}  // namespace am::cuda
