// Checkpoints whose model and optimizer states are stored separately, in two folders or files.
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
  std::string format;                          // result of TensorSource::format()
  std::filesystem::path folder;                // result of TensorSource::path()
  std::filesystem::path config_file = {};      // the model's config.json; may be empty
  std::optional<int64_t> step = std::nullopt;  // training step; nullopt: the step of the model
  // Problems of `folder` itself. damage() returns these problems, followed by those of the model
  // and of the states.
  std::vector<stored::StoredProblem> damage = {};
  std::string note = {};  // result of TensorSource::note(); empty: the model's note
};

// Returns a source with the parameters of `model` and with the tensors of `states` as optimizer
// tensors. Omits a tensor of `states` if `model` has a tensor with this name. `states` may be null.
std::unique_ptr<stored::TensorSource> pair_up(Paired what,
                                              std::unique_ptr<stored::TensorSource> model,
                                              std::unique_ptr<stored::TensorSource> states);

}  // namespace am::frameworks
