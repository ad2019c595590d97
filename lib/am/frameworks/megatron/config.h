// Tables of Megatron-LM's arguments that both its export (config.cpp) and its import
// (config_reader.cpp) use.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "am/frameworks/shared_key.h"

namespace am::frameworks {

// Values of --data-parallel-sharding-strategy, indexed by the ZeRO level.
inline constexpr std::array<std::string_view, 4> kMegatronSharding = {
    "no_shard", "optim", "optim_grads", "optim_grads_params"};

// Megatron's and torch's names of dtypes.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMegatronDtypes = {
    {{"fp32", "float32"}, {"bf16", "bfloat16"}, {"fp16", "float16"}}};

// Megatron's arguments, without dashes, and the corresponding plan keys. The third column is
// Megatron's default (SharedKey::absent).
inline constexpr std::array<SharedKey, 15> kMegatronKeys = {{
    {"distributed-backend", "strategy.backend", {}, Form::kOptional},
    {"seq-length", "train.seq_len"},
    {"train-iters", "train.max_steps"},
    {"seed", "train.seed", int64_t{1234}},
    {"clip-grad", "train.max_grad_norm", 1.0},
    {"loss-scale", "train.loss_scale", {}, Form::kOptional},
    {"lr", "optimizer.lr"},
    {"adam-eps", "optimizer.eps"},
    {"weight-decay", "optimizer.weight_decay"},
    {"lr-warmup-iters", "scheduler.warmup_steps"},
    {"min-lr", "scheduler.min_lr"},
    {"log-interval", "metrics.every", int64_t{100}},
    {"save", "checkpoint.dir", {}, Form::kOptional},
    {"save-interval", "checkpoint.every", {}, Form::kOptional},
    {"async-save", "checkpoint.async", {}, Form::kOptional},
}};

// A Megatron argument that takes no value. The argument corresponds to a boolean key of the
// strategy megatron_fsdp.
struct MegatronSwitch {
  std::string_view theirs;  // Megatron's argument, without dashes
  std::string_view ours;    // the plan's key
  bool inverted = false;    // true: the argument sets the key to false
};
inline constexpr std::array<MegatronSwitch, 9> kMegatronSwitches = {{
    {"overlap-grad-reduce", "strategy.overlap_grad_reduce"},
    {"overlap-param-gather", "strategy.overlap_param_gather"},
    {"no-check-for-nan-in-loss-and-grad", "strategy.check_for_nan_in_grad", true},
    {"ddp-average-in-collective", "strategy.average_in_collective"},
    {"calculate-per-token-loss", "strategy.calculate_per_token_loss"},
    {"keep-fp8-transpose-cache", "strategy.keep_fp8_transpose_cache"},
    {"use-nccl-ub", "strategy.nccl_ub"},
    {"fsdp-double-buffer", "strategy.fsdp_double_buffer"},
    {"init-model-with-meta-device", "strategy.init_fsdp_with_meta_device"},
}};

// A Megatron argument for a size of the model. The model's config.json contains this size, too.
// kMegatronSizes applies to all models, kMegatronExpertSizes only to models with experts.
struct MegatronSize {
  std::string_view theirs;      // Megatron's argument, without dashes
  std::string_view config_key;  // key in config.json
};
inline constexpr std::array<MegatronSize, 6> kMegatronSizes = {{
    {"num-layers", "num_hidden_layers"},
    {"hidden-size", "hidden_size"},
    {"ffn-hidden-size", "intermediate_size"},
    {"num-attention-heads", "num_attention_heads"},
    {"num-query-groups", "num_key_value_heads"},
    {"kv-channels", "head_dim"},
}};
inline constexpr std::array<MegatronSize, 3> kMegatronExpertSizes = {{
    {"num-experts", "num_experts"},
    {"moe-router-topk", "num_experts_per_tok"},
    {"moe-ffn-hidden-size", "moe_intermediate_size"},
}};

}  // namespace am::frameworks
