// A folder that torch.distributed.checkpoint's Hugging Face writer wrote without consolidation:
//
//   shard-00001-model-00001-of-00001.safetensors     Each file has the parts of tensors that one
//   shard-00002-model-00001-of-00001.safetensors     rank wrote. Their offsets are in the header's
//                                                    DCP_SHARDING_INFO.
//
// The files do not contain global shapes, so the shape of a tensor is inferred from the end of its
// last part. A missing last file is therefore detected only by comparison with a config.json;
// note() reports the difference.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a file named "shard-N-model-..." with DCP_SHARDING_INFO, or a folder
// in which all safetensors files have such names and the first has DCP_SHARDING_INFO. Returns false
// for a folder that also has other safetensors files, because it was consolidated.
bool is_hf_shards_source(const std::filesystem::path& path);
// Throws Error(kFormat) if the parts of a tensor overlap or leave a gap, because files are missing
// or belong to two saves. With OnDamage::kReport, damage() lists the error instead, and boxes that
// the parts cover exactly once can still be read. `config_folders` are the folders that may contain
// the model's config.json.
std::unique_ptr<TensorSource> open_hf_shards_source(
    const std::filesystem::path& folder, const std::vector<std::filesystem::path>& config_folders,
    OnDamage damage = OnDamage::kRefuse);

}  // namespace am::stored
