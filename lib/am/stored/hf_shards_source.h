// A folder of torch.distributed.checkpoint's Hugging Face writer, which was not consolidated:
//
//   shard-00001-model-00001-of-00001.safetensors     the parts of tensors that one rank has written;
//   shard-00002-model-00001-of-00001.safetensors     their offsets are in the header's
//                                                    DCP_SHARDING_INFO
//
// Nothing in it says how large a tensor is: it is as large as its last part reaches. So a missing
// last file goes unnoticed, except by a config.json that asks for other shapes: note() says so.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// A folder with such files and no others: what was made of them is read instead. Or one file alone:
// what the others hold is missing.
bool is_hf_shards_source(const std::filesystem::path& path);
// Throws Error(kFormat) when parts overlap or leave a hole: files are missing, or of two saves.
// Where damage is listed, what parts hold once can be read all the same.
// `config_folders`: where the model's config.json may lie.
std::unique_ptr<TensorSource> open_hf_shards_source(
    const std::filesystem::path& folder, const std::vector<std::filesystem::path>& config_folders,
    Damage damage = Damage::kRefused);

}  // namespace am::stored
