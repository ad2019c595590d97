// Configurations of the data-parallel strategies. Most keys have the names of PyTorch FSDP2, NeMo
// AutoModel or Megatron-LM.
//
// Defaults of the first three strategies are those of AutoModel 0.7 and PyTorch; lib/decisions/0023
// describes the consequences. If a build cannot run what a key asks for, am-plan check and am-run
// refuse plans that set the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "am/base/json.h"
#include "am/config/fp8_recipe.h"

namespace am::config {

// Dtypes by torch's names: "float32", "bfloat16" or "float16". Without param_dtype, parameters are
// gathered in their storage dtype; without reduce_dtype, gradients are reduced in the parameters'
// dtype; without output_dtype, logits keep the dtype in which they were computed.
struct MixedPrecisionPolicy {
  std::optional<std::string> param_dtype = "bfloat16";
  std::optional<std::string> reduce_dtype = "float32";
  std::optional<std::string> output_dtype;
  bool cast_forward_inputs = false;
};

struct CPUOffloadPolicy {
  bool pin_memory = true;
};

// A TP plan: the text "auto", a registered plan's name, a path or "libmine.so:symbol"; or an inline
// table.
struct TpPlanSetting {
  std::string text = "auto";
  // Pairs of a module name pattern and a TP style, in the file's order.
  std::vector<std::pair<std::string, std::string>> table;
};

// Pairs of a glob over parameter names and the tensor dim on which FSDP shards these parameters, in
// the file's order.
using ShardPlacement = std::vector<std::pair<std::string, int64_t>>;

// Part of a layer that backward recomputes: kOff nothing, kFull everything, kSelective everything
// but the most expensive operators (for megatron, recompute_modules), kMlp the feed-forward.
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
  std::optional<std::string> backend;  // absent: nccl if a GPU is present, else gloo
  // FSDP units whose gathered parameters are freed after forward. true: all units but the root.
  // false: none. A number N >= 2: all units but the root; shards over groups of N ranks are kept.
  // Absent: all units except the last layer, the head and the root; in a pipeline, none.
  std::optional<std::variant<bool, int64_t>> reshard_after_forward;
  bool enable_async_tensor_parallel = false;
  bool enable_compile = false;
  bool enable_fsdp2_prefetch = false;
  int64_t fsdp2_backward_prefetch_depth = 2;
  int64_t fsdp2_forward_prefetch_depth = 1;
  // Dims on which parameters are sharded. A parameter that matches no glob is sharded on dim 0; if
  // several globs match, the last one applies. Corresponds to fully_shard's shard_placement_fn.
  ShardPlacement shard_placement;
  // Globs over the names of parameters that are not sharded, so that every data-parallel rank
  // stores them in full. Corresponds to fully_shard's ignored_params.
  std::vector<std::string> ignored_params;
  Fp8Recipe fp8 = Fp8Recipe::kNone;
};

struct MegatronFSDPConfig {
  // Modules that become FSDP units; empty: the decoder layers of the model's family.
  std::vector<std::string> megatron_fsdp_unit_modules;
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
  Fp8Recipe fp8 = Fp8Recipe::kNone;
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
  Fp8Recipe fp8 = Fp8Recipe::kNone;
};

// Megatron-LM's data parallelism: parameters in params_dtype are whole on every data-parallel rank,
// and its distributed optimizer shards states. mesh.dp_replicate_size is the number of optimizer
// instances (--num-distributed-optimizer-instances). The ranks of an instance together hold all
// states.
struct MegatronConfig {
  // State sharded over the ranks of an instance: 0 none, 1 optimizer states, 2 also gradients.
  int64_t zero = 1;
  int64_t etp_size = 0;  // tensor-parallel ranks of each expert; 0: tp_size
  bool sequence_parallel = false;
  std::string params_dtype = "bfloat16";
  bool grad_reduce_in_fp32 = true;  // gradients are stored and reduced in float32
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  // Modules that "selective" recomputes (recomputation.h). Empty: core_attn.
  std::vector<std::string> recompute_modules;
  // Layers that "full" recomputes. "block": the first N of every stage. "uniform": all layers, in
  // groups of N consecutive layers that keep only the group's input. 0: groups of one layer.
  int64_t recompute_num_layers = 0;
  std::string recompute_method = "uniform";
  std::optional<std::string> backend;
  Fp8Recipe fp8 = Fp8Recipe::kNone;

  // Returns the tensor-parallel ranks of each expert.
  int64_t expert_tp(int64_t tp_size) const { return etp_size > 0 ? etp_size : tp_size; }
};

using DistributedConfig = std::variant<FSDP2Config, MegatronFSDPConfig, DDPConfig, MegatronConfig>;

// Whether gradients are reduced only after the step's last micro-batch: fsdp2 by
// defer_fsdp_grad_sync, megatron_fsdp and megatron if they do not shard gradients (levels 0 and 1),
// ddp always.
bool defers_gradient_sync(const DistributedConfig& config);

// Returns the activation checkpointing mode. For strategies whose key is a boolean, true is kFull.
ActivationCheckpointing checkpointing_of(const DistributedConfig& config);
// Sets the activation checkpointing mode. Megatron-FSDP supports only full recomputation, so every
// mode but kOff means kFull there. For megatron, kMlp is kSelective of the module "mlp".
void set_checkpointing(ActivationCheckpointing mode, DistributedConfig& config);
// Returns N if every N-th layer is checkpointed; 1 for strategies that checkpoint all layers.
int64_t checkpointing_every(const DistributedConfig& config);

Fp8Recipe fp8_of(const DistributedConfig& config);
// Whether products are computed in 8 or 4 bits by Transformer Engine: all recipes of the strategy
// megatron, and the recipes that only Transformer Engine has. They apply to experts too.
bool uses_transformer_engine(const DistributedConfig& config);

// Whether activations between tensor-parallel layers are cut along the sequence, by the strategy's
// key; false for strategies that do not have the key.
bool sequence_parallel(const DistributedConfig& config);

// Returns cluster.implementation of plans that do not set it: "automesh", or "megatron" for the
// strategy megatron.
const char* default_implementation(const DistributedConfig& config);

// Returns "fsdp2", "megatron_fsdp", "ddp" or "megatron".
const char* strategy_name(const DistributedConfig& config);
// Returns the configuration's keys and values as a JSON object, like AutoModel's `to_dict`.
Json to_dict(const DistributedConfig& config);

}  // namespace am::config
