// The strategies' configurations, by the names that PyTorch FSDP2 and NeMo AutoModel users know.
//
// Defaults are those of AutoModel 0.7 and PyTorch; lib/decisions/0023 says what follows from them.
// A key that a build does not support is refused by am-plan check and am-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "am/base/json.h"

namespace am::config {

// Names are torch's: "float32", "bfloat16", "float16". Absent: parameters are gathered as they are
// stored, gradients are reduced in the dtype of the parameters, logits stay as the model makes
// them.
struct MixedPrecisionPolicy {
  std::optional<std::string> param_dtype = "bfloat16";
  std::optional<std::string> reduce_dtype = "float32";
  std::optional<std::string> output_dtype;
  bool cast_forward_inputs = false;
};

struct CPUOffloadPolicy {
  bool pin_memory = true;
};

// "auto", a registered plan's name, a path, or "libmine.so:symbol" as text; or an inline table.
struct TpPlanSetting {
  std::string text = "auto";
  std::vector<std::pair<std::string, std::string>> table;  // pattern, style; in the file's order
};

// Glob over parameters' names, tensor dimension; in the file's order.
using ShardPlacement = std::vector<std::pair<std::string, int64_t>>;

// What layers compute again in backward: nothing, all but the most expensive, all, or the
// feed-forward alone.
enum class ActivationCheckpointing { kOff, kFull, kSelective, kMlp };

struct FSDP2Config {
  bool sequence_parallel = false;
  TpPlanSetting tp_plan;
  bool patch_is_packed_sequence = false;
  MixedPrecisionPolicy mp_policy;
  std::optional<CPUOffloadPolicy> offload_policy;
  std::optional<std::string> autocast_dtype;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  int64_t activation_checkpointing_every = 1;  // checkpoint every N-th layer
  bool defer_fsdp_grad_sync = true;
  std::optional<std::string> backend;  // absent: nccl where a GPU is present, else gloo
  // absent: every unit but the last layer and the root; true; false; or the size to reshard to (>=
  // 2).
  std::optional<std::variant<bool, int64_t>> reshard_after_forward;
  bool enable_async_tensor_parallel = false;
  bool enable_compile = false;
  bool enable_fsdp2_prefetch = false;
  int64_t fsdp2_backward_prefetch_depth = 2;
  int64_t fsdp2_forward_prefetch_depth = 1;
  // fully_shard's arguments of these names. A parameter that none matches is cut on dimension 0;
  // where several match, the last one counts.
  ShardPlacement shard_placement;
  std::vector<std::string> ignored_params;  // globs: whole on every data-parallel rank
};

struct MegatronFSDPConfig {
  std::vector<std::string> megatron_fsdp_unit_modules;  // empty: the family's decoder layer
  int64_t zero_dp_strategy = 3;
  bool init_fsdp_with_meta_device = false;
  bool grad_reduce_in_fp32 = false;
  bool preserve_fp32_weights = false;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool check_for_nan_in_grad = true;
  bool report_nan_in_param_grad = false;
  bool average_in_collective = false;
  bool disable_bucketing = false;
  bool calculate_per_token_loss = false;
  bool keep_fp8_transpose_cache = false;
  bool nccl_ub = false;
  bool fsdp_double_buffer = false;
  bool activation_checkpointing = false;
  std::optional<std::string> backend;
};

struct DDPConfig {
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  std::optional<std::string> backend;
  std::optional<std::string> autocast_dtype;
  int64_t bucket_cap_mb = 25;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  bool broadcast_buffers = false;
  bool find_unused_parameters = false;
};

using DistributedConfig = std::variant<FSDP2Config, MegatronFSDPConfig, DDPConfig>;

// Whether gradients are reduced after the step's last micro-batch only: fsdp2 as
// defer_fsdp_grad_sync says, megatron_fsdp where it does not shard them (levels 0 and 1), ddp
// always.
bool defers_gradient_sync(const DistributedConfig& config);

// "fsdp2", "megatron_fsdp", "ddp"
const char* strategy_name(const DistributedConfig& config);
// Keys and values by their own names, as AutoModel's `to_dict`.
Json to_dict(const DistributedConfig& config);

}  // namespace am::config
