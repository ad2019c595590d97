// Parts of an export that do not depend on its format: a folder that is created completely or not
// at all, copies of config and tokenizer, and checks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Returns the folder that holds the files until all of them are written.
std::filesystem::path partial_export(const std::filesystem::path& folder);
// Creates an empty partial_export(folder) and returns it. Throws Error(kIo) if `folder` exists and
// is not empty.
std::filesystem::path begin_export(const std::filesystem::path& folder);
// Renames partial_export(folder) to `folder`.
void finish_export(const std::filesystem::path& folder);

// Copies generation_config.json from the folder of the model's config.json, and a tokenizer:
// tokenizer.json, the files that transformers keeps with it and chat templates. `tokenizer`: a
// folder, or a file, which becomes tokenizer.json; empty: the tokenizer beside the config. Never
// mixes files of two tokenizers. Throws Error(kIo).
void copy_tokenizer(const std::filesystem::path& into, const std::filesystem::path& config_folder,
                    const std::filesystem::path& tokenizer);

// Returns the config with the dtype of the exported values, as "torch_dtype" if it uses this key,
// otherwise as "dtype", and without quantisation settings: the exported values are not quantised,
// even if the weights that the config came with were.
std::string config_with_dtype(const std::string& text, const std::string& file,
                              at::ScalarType dtype);

// Throws Error if the stored tensors cannot be exported: there are none, some are adapters, whose
// scale is only in a plan, or `dtype` is set and some are codes of quantised weights.
void require_exportable(const stored::TensorSource& source, std::optional<at::ScalarType> dtype);
// Returns the first tensor that holds codes of quantised weights; null if there is none.
const stored::StoredTensor* find_codes(const stored::TensorSource& source);

}  // namespace am::checkpoint
