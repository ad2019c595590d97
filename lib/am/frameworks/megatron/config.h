// Shared by the writer and the reader of Megatron-LM's arguments.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "am/frameworks/shared_key.h"

namespace am::frameworks {

// Names of ZeRO stages 0 to 3.
inline constexpr std::array<std::string_view, 4> kMegatronSharding = {
    "no_shard", "optim", "optim_grads", "optim_grads_params"};

// Megatron's names of dtypes, and torch's.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMegatronDtypes = {
    {{"fp32", "float32"}, {"bf16", "bfloat16"}, {"fp16", "float16"}}};

// Arguments without their dashes. `absent` is Megatron's default.
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

// Switches of the strategy megatron_fsdp.
struct MegatronSwitch {
  std::string_view theirs;
  std::string_view ours;
  bool inverted = false;
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

// Sizes that are also in the model's config.json: first for every model, then for experts.
struct MegatronSize {
  std::string_view theirs;
  std::string_view config_key;
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
