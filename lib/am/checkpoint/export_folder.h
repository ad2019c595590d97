// What every export of tensors at rest does besides its format: a folder that appears whole or not
// at all, and what cannot be exported.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Where the files are until all of them are written.
std::filesystem::path partial_export(const std::filesystem::path& folder);
// An empty one. Throws Error(kIo) when `folder` exists and is not empty.
std::filesystem::path begin_export(const std::filesystem::path& folder);
// Gives it its name.
void finish_export(const std::filesystem::path& folder);

// Copies generation_config.json from the folder of the model's config.json, and a tokenizer:
// tokenizer.json, the files that transformers keeps with it and chat templates. `tokenizer`: a
// folder, or a file, which becomes tokenizer.json; empty: the one beside the config. Files of two
// tokenizers never come together. Throws Error(kIo).
void copy_tokenizer(const std::filesystem::path& into, const std::filesystem::path& config_folder,
                    const std::filesystem::path& tokenizer);

// The config as it was, with the dtype of the exported values under both of its spellings' names.
// Values that are numbers are not quantised, whatever the weights were that the config came with.
std::string config_with_dtype(const std::string& text, const std::string& file,
                              at::ScalarType dtype);

// Throws Error where tensors at rest are no whole model: none, adapters without their factor, or
// codes of quantised weights that another dtype is asked of.
void require_exportable(const stored::TensorSource& source, std::optional<at::ScalarType> dtype);
// The first tensor of quantised weights; null where all are numbers.
const stored::StoredTensor* find_codes(const stored::TensorSource& source);

}  // namespace am::checkpoint
