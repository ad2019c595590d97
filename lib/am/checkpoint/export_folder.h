// Parts of an export that do not depend on its format: a folder that is created completely or not
// at all, copies of config and tokenizer, and checks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Returns the path of the folder to which files are written before the export gets its final name.
std::filesystem::path partial_export(const std::filesystem::path& folder);
// Creates an empty partial_export(folder) and returns it. Throws Error(kIo) if `folder` exists and
// is not empty.
std::filesystem::path begin_export(const std::filesystem::path& folder);
// Renames partial_export(folder) to `folder`.
void finish_export(const std::filesystem::path& folder);

// Copies generation_config.json from the folder of the model's config.json, and a tokenizer:
// tokenizer.json, chat templates, and the other files that transformers saves for a tokenizer.
// `tokenizer` is the folder to copy from, or a file, which becomes tokenizer.json; if it is empty,
// the tokenizer beside the config is copied. Never mixes files of two tokenizers. Throws
// Error(kIo).
void copy_tokenizer(const std::filesystem::path& into, const std::filesystem::path& config_folder,
                    const std::filesystem::path& tokenizer);

// Returns the text of a config.json with the dtype of the exported values, under "torch_dtype" if
// the config has this key, otherwise under "dtype". Removes quantisation settings, because the
// exported values are not quantised, even if the weights beside the config were. `file` is the
// config's name in messages.
std::string config_with_dtype(const std::string& text, const std::string& file,
                              at::ScalarType dtype);

// Throws Error if the source's tensors cannot be exported: if there are none, if some are adapters,
// whose scale is only in a plan, or if `dtype` is set and some are codes of quantised weights.
void require_exportable(const stored::TensorSource& source, std::optional<at::ScalarType> dtype);
// Returns the first tensor whose elements are codes of quantised weights; null if there is none.
const stored::StoredTensor* find_codes(const stored::TensorSource& source);

}  // namespace am::checkpoint
