// Checkpoint folders of training frameworks. The table has the contents by which each is
// recognised, the framework's format, and the name of the format here. The first match is used.
//
//   metadata.json with a sharded_backend           Megatron's torch_dist: "megatron"
//   .metadata with model.module.decoder.* or
//     optimizer.state.module.module.module.*       Megatron-FSDP's fsdp_dtensor: "megatron-fsdp"
//   .metadata that OLMo-core has written;
//     model_and_optim/.metadata                    OLMo-core: "olmo"
//   .metadata with train_state.step, or
//     torchtitan's names of parameters             torchtitan: "torchtitan"
//   model/ with weights, optim/.metadata or
//     config.yaml or losses.json beside it         NeMo AutoModel: "automodel"
//   pytorch_model_fsdp_0/, optimizer_0/ beside it,
//     or pytorch_model_fsdp_0_rank*.bin            accelerate, transformers' Trainer: "accelerate"
//   metadata.pkl that names ranks' files, or
//     model_0.pt and model_1.pt                    torch_checkpointing: "torch-checkpointing"
//   .metadata with anything else                   PyTorch's own: "dcp"
//   shard-*-model-*-of-*.safetensors with
//     DCP_SHARDING_INFO                            PyTorch's for the hub: "dcp-huggingface"
//   mp_rank_*/, global_step*/, ...                 not read: DeepSpeed, Megatron's "torch"
//
// Tensors of the first four formats get the hub's names if a config.json describes the model
// (mapped_source.h).
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

bool is_framework_folder(const std::filesystem::path& path);
// Opens the checkpoint. Throws Error(kFormat) for a folder whose format is recognised but not
// supported; its hint says how to convert the folder.
std::unique_ptr<stored::TensorSource> open_framework_folder(
    const std::filesystem::path& path, stored::OnDamage damage = stored::OnDamage::kRefuse);

}  // namespace am::frameworks
