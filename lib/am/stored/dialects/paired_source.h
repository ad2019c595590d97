// Checkpoints of two folders: the model's in one, an optimizer's states in the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/stored/tensor_source.h"

namespace am::stored {

struct Paired {
  std::string format;
  std::filesystem::path folder;  // of both
  std::filesystem::path config_file = {};
  std::optional<int64_t> step = std::nullopt;
  std::vector<StoredProblem> damage = {};  // of the folder, beside that of the two
};

// The parameters of `model`; behind them all tensors of `states`, which may be null.
std::unique_ptr<TensorSource> pair_up(Paired what, std::unique_ptr<TensorSource> model,
                                      std::unique_ptr<TensorSource> states);

}  // namespace am::stored
