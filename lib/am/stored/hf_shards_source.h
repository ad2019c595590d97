// A folder that torch.distributed.checkpoint's Hugging Face writer wrote without consolidation:
//
//   shard-00001-model-00001-of-00001.safetensors     Each file contains the parts of tensors that
//   shard-00002-model-00001-of-00001.safetensors     one rank wrote. DCP_SHARDING_INFO in the
//                                                    file's header lists the offsets of the parts.
//
// The files do not contain global shapes, so the shape of a tensor is inferred from the end of its
// last part. A missing last file is therefore detected only by comparison with a config.json: a
// tensor that is smaller than in config.json is reported as damaged. If a tensor differs from
// config.json in any other way, note() mentions the first such tensor.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a file named "shard-N-model-..." with DCP_SHARDING_INFO, or a folder
// in which all safetensors files have names of this form and the first file has DCP_SHARDING_INFO.
// Returns false for a folder that also has other safetensors files: these contain the consolidated
// tensors.
bool is_hf_shards_source(const std::filesystem::path& path);
// Opens a folder or a file. `config_folders`: the folders that may contain the model's config.json.
// Throws Error(kFormat) if the parts of a tensor overlap or leave a gap, because files are missing
// or belong to two saves. With OnDamage::kReport, damage() lists this error instead, and read() can
// still read boxes that the parts cover exactly once.
std::unique_ptr<TensorSource> open_hf_shards_source(
    const std::filesystem::path& folder, const std::vector<std::filesystem::path>& config_folders,
    OnDamage damage = OnDamage::kRefuse);

}  // namespace am::stored
