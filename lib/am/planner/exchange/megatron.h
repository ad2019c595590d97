// What the writer and the reader of Megatron-LM's arguments share.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "am/planner/exchange/exchange.h"

namespace am::planner {

// Names of ZeRO's stages 0 to 3.
inline constexpr std::array<std::string_view, 4> kMegatronSharding = {
    "no_shard", "optim", "optim_grads", "optim_grads_params"};

// Arguments that say what a key of the plan says: written from it, and read back into it.
struct MegatronKey {
  std::string_view theirs;
  std::string_view ours;
  bool optional = false;               // left out where it is 0, false or empty
  std::optional<int64_t> absent = {};  // Megatron's default, where a plan has another
};
inline constexpr std::array<MegatronKey, 13> kMegatronKeys = {{
    {"seq-length", "train.seq_len"},
    {"train-iters", "train.max_steps"},
    {"seed", "train.seed", false, 1234},
    {"clip-grad", "train.max_grad_norm", false, 1},
    {"lr", "optimizer.lr"},
    {"adam-eps", "optimizer.eps"},
    {"weight-decay", "optimizer.weight_decay"},
    {"lr-warmup-iters", "scheduler.warmup_steps"},
    {"min-lr", "scheduler.min_lr"},
    {"log-interval", "metrics.every", false, 100},
    {"save", "checkpoint.dir", true},
    {"save-interval", "checkpoint.every", true},
    {"async-save", "checkpoint.async", true},
}};

// Switches of the strategy megatron_fsdp.
struct MegatronSwitch {
  std::string_view theirs;
  std::string_view ours;
  bool inverted = false;
};
inline constexpr std::array<MegatronSwitch, 10> kMegatronSwitches = {{
    {"overlap-grad-reduce", "strategy.overlap_grad_reduce"},
    {"overlap-param-gather", "strategy.overlap_param_gather"},
    {"accumulate-allreduce-grads-in-fp32", "strategy.grad_reduce_in_fp32"},
    {"no-check-for-nan-in-loss-and-grad", "strategy.check_for_nan_in_grad", true},
    {"ddp-average-in-collective", "strategy.average_in_collective"},
    {"calculate-per-token-loss", "strategy.calculate_per_token_loss"},
    {"keep-fp8-transpose-cache", "strategy.keep_fp8_transpose_cache"},
    {"use-nccl-ub", "strategy.nccl_ub"},
    {"fsdp-double-buffer", "strategy.fsdp_double_buffer"},
    {"init-model-with-meta-device", "strategy.init_fsdp_with_meta_device"},
}};

// Sizes that the model's config.json has too: those of every model, then those of experts.
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

// Words of one command; see words.h.
std::optional<Imported> read_megatron(std::string_view text, const std::string& file,
                                      Diagnostics& found);

}  // namespace am::planner
