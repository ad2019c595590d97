// Steps that exports of all formats share: creating a folder that appears complete or not at all,
// copying the tokenizer, changing the config, and checking the source.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Returns the path of the temporary folder in which an export to `folder` is written.
std::filesystem::path partial_export(const std::filesystem::path& folder);
// Creates an empty folder partial_export(folder), and returns its path. Deletes an older folder of
// this name. Throws Error(kIo) if `folder` exists and is not empty.
std::filesystem::path begin_export(const std::filesystem::path& folder);
// Renames partial_export(folder) to `folder` when all files are written.
void finish_export(const std::filesystem::path& folder);

// Copies generation_config.json from `config_folder`, and a tokenizer: tokenizer.json, chat
// templates, and the other files that transformers saves for a tokenizer. All tokenizer files are
// copied from one folder. `tokenizer` is this folder, or a file in it; empty: `config_folder`. If
// `tokenizer` is a file with a name that transformers does not use, only this file is copied. The
// copy is named tokenizer.json if the file's extension is .json. Throws Error(kIo).
void copy_tokenizer(const std::filesystem::path& into, const std::filesystem::path& config_folder,
                    const std::filesystem::path& tokenizer);

// Returns the text of a config.json, changed for exported values of this dtype. Sets "torch_dtype"
// if the config has this key, otherwise "dtype". Removes quantisation settings, because exported
// values are not quantised. `file` is the config's name in error messages.
std::string config_with_dtype(const std::string& text, const std::string& file,
                              at::ScalarType dtype);

// Throws Error(kFormat) if the source has no tensors, or if `dtype` is set and a tensor contains
// codes of quantised weights.
void require_values(const stored::TensorSource& source, std::optional<at::ScalarType> dtype);
// Throws Error(kUsage) if the source contains LoRA adapters: their scaling factor is known only
// from a plan.
void refuse_adapters(const stored::TensorSource& source);
// Returns the first tensor whose elements are codes of quantised weights; null if there is none.
const stored::StoredTensor* find_codes(const stored::TensorSource& source);

}  // namespace am::checkpoint
