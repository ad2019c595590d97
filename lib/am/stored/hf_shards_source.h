// A folder of torch.distributed.checkpoint's Hugging Face writer that was not consolidated:
//
//   shard-00001-model-00001-of-00001.safetensors     Each file has the parts of tensors that one
//   shard-00002-model-00001-of-00001.safetensors     rank wrote. Their offsets are in the header's
//                                                    DCP_SHARDING_INFO.
//
// The folder does not contain the global shapes, so a tensor's shape is inferred from its last
// part. A missing last file is therefore only detected if a config.json gives other shapes; note()
// reports it.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a folder in which all safetensors files have such names, or is one
// file with such a name. A folder that also has other safetensors files was consolidated, and those
// are read.
bool is_hf_shards_source(const std::filesystem::path& path);
// Throws Error(kFormat) if parts overlap or leave a gap, because files are missing or belong to two
// saves. With OnDamage::kReport, damage() lists this instead, and boxes that the parts cover
// exactly once can be read. `config_folders` are the folders that may contain the model's
// config.json.
std::unique_ptr<TensorSource> open_hf_shards_source(
    const std::filesystem::path& folder, const std::vector<std::filesystem::path>& config_folders,
    OnDamage damage = OnDamage::kRefuse);

}  // namespace am::stored
