// Configurations of the data-parallel strategies. Most members are named as in PyTorch FSDP2, NeMo
// AutoModel or Megatron-LM.
//
// The defaults of FSDP2Config, MegatronFSDPConfig and DDPConfig are those of AutoModel 0.7 and
// PyTorch; lib/decisions/0023 describes the consequences for mp_policy. am-plan check and am-run
// refuse a plan with a value that this build cannot run (rule runtime.unsupported).
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

// Dtypes of mixed precision, by PyTorch's names: "float32", "bfloat16" or "float16". Without
// param_dtype, parameters are gathered in the dtype in which they are stored. Without reduce_dtype,
// gradients are reduced in the dtype of the gathered parameters. Without output_dtype, logits keep
// the dtype in which they were computed.
struct MixedPrecisionPolicy {
  std::optional<std::string> param_dtype = "bfloat16";
  std::optional<std::string> reduce_dtype = "float32";
  std::optional<std::string> output_dtype;
  bool cast_forward_inputs = false;
};

struct CPUOffloadPolicy {
  bool pin_memory = true;
};

// The value of tp_plan. If `table` is empty, `text` is "auto", a registered plan's name, the path
// of a TOML file, or "libmine.so:symbol" (a plugin).
struct TpPlanSetting {
  std::string text = "auto";
  // Pairs of a module name pattern and a TP style, in the file's order.
  std::vector<std::pair<std::string, std::string>> table;
};

// Pairs of a glob over parameter names and the tensor dim on which FSDP shards these parameters, in
// the file's order.
using ShardPlacement = std::vector<std::pair<std::string, int64_t>>;

// Part of a layer that backward recomputes. kOff: nothing. kFull: everything. kSelective:
// everything except the most expensive operators; in the strategy megatron, only the modules in
// recompute_modules. kMlp: the feed-forward.
enum class ActivationCheckpointing { kOff, kFull, kSelective, kMlp };

struct FSDP2Config {
  bool sequence_parallel = false;
  TpPlanSetting tp_plan;
  bool patch_is_packed_sequence = false;
  MixedPrecisionPolicy mp_policy;
  std::optional<CPUOffloadPolicy> offload_policy;
  std::optional<std::string> autocast_dtype;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  int64_t activation_checkpointing_every = 1;  // n: checkpoint every n-th layer
  bool defer_fsdp_grad_sync = true;
  std::optional<std::string> backend;  // absent: nccl if a GPU is present, else gloo
  // Selects the FSDP units whose gathered parameters are freed after forward. true: all units but
  // the root. false: none. A number N >= 2: all units but the root; after forward, each rank keeps
  // 1/N of the unit's parameters, so that backward gathers over N ranks only. Absent: all units
  // except the last layer, the head and the root; in a pipeline, none.
  std::optional<std::variant<bool, int64_t>> reshard_after_forward;
  bool enable_async_tensor_parallel = false;
  bool enable_compile = false;
  bool enable_fsdp2_prefetch = false;
  int64_t fsdp2_backward_prefetch_depth = 2;
  int64_t fsdp2_forward_prefetch_depth = 1;
  // Dims on which FSDP shards parameters. A parameter that matches no glob is sharded on dim 0. If
  // a parameter matches several globs, the last one applies. Corresponds to fully_shard's
  // shard_placement_fn.
  ShardPlacement shard_placement;
  // Globs over parameter names. FSDP does not shard the matching parameters: every data-parallel
  // rank stores them in full. Corresponds to fully_shard's ignored_params.
  std::vector<std::string> ignored_params;
  Fp8Recipe fp8 = Fp8Recipe::kNone;
};

struct MegatronFSDPConfig {
  // Classes of the modules that become FSDP units; empty: the decoder layer of the model's family.
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

// Megatron-LM's data parallelism. Every data-parallel rank holds whole parameters in params_dtype,
// and the distributed optimizer shards the optimizer states. The data-parallel ranks form
// mesh.dp_replicate_size optimizer instances (--num-distributed-optimizer-instances). The ranks of
// one instance together hold all optimizer states.
struct MegatronConfig {
  // ZeRO level over the ranks of an optimizer instance. 0: nothing is sharded. 1: optimizer states
  // are sharded. 2: gradients are sharded too.
  int64_t zero = 1;
  int64_t etp_size = 0;  // number of tensor-parallel ranks of each expert; 0: tp_size
  bool sequence_parallel = false;
  std::string params_dtype = "bfloat16";
  bool grad_reduce_in_fp32 = true;  // gradients are stored and reduced in float32
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  // Modules that kSelective recomputes, by the names in recomputation.h. Empty: core_attn.
  std::vector<std::string> recompute_modules;
  // Layers that kFull recomputes, where n is recompute_num_layers. Method "block": the first n
  // layers of every stage. Method "uniform": all layers, in groups of n consecutive layers; each
  // group keeps only its input. With "uniform", 0 means groups of one layer.
  int64_t recompute_num_layers = 0;
  std::string recompute_method = "uniform";
  // Fraction of each micro-batch's saved activations that is in host memory between forward and
  // backward, from 0 to 1.
  double activation_offload_fraction = 0.0;
  std::optional<std::string> backend;
  Fp8Recipe fp8 = Fp8Recipe::kNone;

  // Returns the number of tensor-parallel ranks of each expert.
  int64_t expert_tp(int64_t tp_size) const { return etp_size > 0 ? etp_size : tp_size; }
};

using DistributedConfig = std::variant<FSDP2Config, MegatronFSDPConfig, DDPConfig, MegatronConfig>;

// Whether gradients are reduced only after the step's last micro-batch. fsdp2: if
// defer_fsdp_grad_sync is set. megatron_fsdp and megatron: if their ZeRO level is 0 or 1, so that
// gradients are not sharded. ddp: always.
bool defers_gradient_sync(const DistributedConfig& config);

// Returns the activation checkpointing mode. For megatron_fsdp, whose key is a boolean, true means
// kFull.
ActivationCheckpointing checkpointing_of(const DistributedConfig& config);
// Sets the activation checkpointing mode. For megatron_fsdp, every mode but kOff means kFull. For
// megatron, kMlp means kSelective with recompute_modules = ["mlp"].
void set_checkpointing(ActivationCheckpointing mode, DistributedConfig& config);
// Returns n if every n-th layer is checkpointed: activation_checkpointing_every for fsdp2, 1 for
// other strategies.
int64_t checkpointing_every(const DistributedConfig& config);

Fp8Recipe fp8_of(const DistributedConfig& config);
// Whether Transformer Engine computes matrix products in 8 or 4 bits. True in the strategy megatron
// for every recipe but kNone, and in other strategies for the recipes that only Transformer Engine
// has. Transformer Engine's recipes apply to experts too.
bool uses_transformer_engine(const DistributedConfig& config);

// Returns the strategy's sequence_parallel: whether activations between tensor-parallel layers are
// sharded along the sequence. Returns false for strategies without this key.
bool sequence_parallel(const DistributedConfig& config);

// Returns the default of cluster.implementation: "megatron" for the strategy megatron, otherwise
// "automesh".
const char* default_implementation(const DistributedConfig& config);

// Returns "fsdp2", "megatron_fsdp", "ddp" or "megatron".
const char* strategy_name(const DistributedConfig& config);
// Returns the configuration's keys and values as a JSON object, like AutoModel's `to_dict`.
Json to_dict(const DistributedConfig& config);

}  // namespace am::config
