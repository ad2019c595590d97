// Checkpoints in two folders: the model in one, optimizer states in the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

struct Paired {
  std::string format;
  std::filesystem::path folder;  // parent of both
  std::filesystem::path config_file = {};
  std::optional<int64_t> step = std::nullopt;
  std::vector<stored::StoredProblem> damage =
      {};  // found in the parent folder, in addition to damage of the two sources
};

// Returns a source with the parameters of `model`, and all tensors of `states` as optimizer
// tensors. `states` may be null.
std::unique_ptr<stored::TensorSource> pair_up(Paired what,
                                              std::unique_ptr<stored::TensorSource> model,
                                              std::unique_ptr<stored::TensorSource> states);

}  // namespace am::frameworks
