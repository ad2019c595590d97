// A folder of torch.distributed.checkpoint's Hugging Face writer that was not consolidated:
//
//   shard-00001-model-00001-of-00001.safetensors     the parts of tensors that one rank has written;
//   shard-00002-model-00001-of-00001.safetensors     their offsets are in the header's
//                                                    DCP_SHARDING_INFO
//
// The folder does not contain the global shapes: a tensor's shape is inferred from its last part. A
// missing last file is therefore only detected by a config.json with other shapes: note() reports
// it.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a folder in which all safetensors files have names of this form
// (otherwise the consolidated files are read), or one file of this form, without the other ranks'
// parts.
bool is_hf_shards_source(const std::filesystem::path& path);
// Throws Error(kFormat) if parts overlap or leave a gap: files are missing, or of two saves. If
// damage is listed, boxes that the parts cover exactly once can still be read.
// `config_folders`: folders that may contain the model's config.json.
std::unique_ptr<TensorSource> open_hf_shards_source(
    const std::filesystem::path& folder, const std::vector<std::filesystem::path>& config_folders,
    OnDamage damage = OnDamage::kRefuse);

}  // namespace am::stored
