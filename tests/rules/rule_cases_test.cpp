// Tests every rule that depends on the plan alone with a plan that breaks the rule and a plan that
// satisfies the rule.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "am/rules/check.h"
#include "layout/plan_text.h"
#include "support/folders.h"

namespace {

using am::Diagnostics;
using am::Severity;
using am::test::ids;

struct RuleCase {
  const char* rule;
  const char* fails;  // "|" separates lines; "SOURCE/" begins a path in the checkout
  const char* passes;
  const char* model = "llama-3.1-8b";
  Severity severity = Severity::kError;
};

constexpr auto kWarning = Severity::kWarning;
constexpr auto kNote = Severity::kNote;

constexpr RuleCase kCases[] = {
    {"mesh.size", "[mesh]|tp_size = 1048576|pp_size = 1048576", "[mesh]|world_size = 1"},
    {"mesh.world", "[mesh]|tp_size = 2", "[mesh]|tp_size = 2|dp_size = 2"},
    {"mesh.product", "[mesh]|world_size = 16|dp_size = 4|tp_size = 2",
     "[mesh]|world_size = 16|dp_size = 8|tp_size = 2"},
    {"mesh.divide", "[mesh]|world_size = 12|tp_size = 8", "[mesh]|world_size = 16|tp_size = 8"},
    {"mesh.replicate", "[mesh]|world_size = 8|dp_replicate_size = 3",
     "[mesh]|world_size = 8|dp_replicate_size = 4"},
    {"mesh.ep", "[mesh]|world_size = 12|ep_size = 8", "[mesh]|world_size = 16|ep_size = 8",
     "mixtral-8x7b-v0.1"},
    {"mesh.tp_node", "[mesh]|world_size = 8|tp_size = 8|ranks_per_node = 4",
     "[mesh]|world_size = 8|tp_size = 4|ranks_per_node = 4", "llama-3.1-8b", kWarning},
    {"tp.strategy", "[mesh]|world_size = 2|tp_size = 2|[strategy]|name = \"ddp\"",
     "[mesh]|world_size = 2|tp_size = 2"},
    {"pp.strategy", "[mesh]|world_size = 2|pp_size = 2|[strategy]|name = \"megatron_fsdp\"",
     "[mesh]|world_size = 2|pp_size = 2"},
    {"cp.strategy", "[mesh]|world_size = 2|cp_size = 2|[strategy]|name = \"ddp\"",
     "[mesh]|world_size = 2|cp_size = 2|[strategy]|name = \"megatron_fsdp\""},
    {"ep.experts", "[mesh]|world_size = 8|ep_size = 2", "[mesh]|world_size = 8"},
    {"ep.experts", "[mesh]|world_size = 12|ep_size = 3", "[mesh]|world_size = 12",
     "mixtral-8x7b-v0.1"},
    {"hsdp.strategy",
     "[mesh]|world_size = 8|dp_replicate_size = 2|[strategy]|name = \"megatron_fsdp\"",
     "[mesh]|world_size = 8|dp_replicate_size = 2"},
    {"strategy.reshard", "[mesh]|world_size = 8|[strategy]|reshard_after_forward = 3",
     "[mesh]|world_size = 8|[strategy]|reshard_after_forward = 4"},
    {"strategy.float32",
     "[mesh]|world_size = 8|[strategy]|name = \"ddp\"|[cluster]|gpu = \"h100-sxm\"",
     "[mesh]|world_size = 8|[strategy]|name = \"ddp\"", "llama-3.1-8b", kWarning},
    {"strategy.float32", "[mesh]|world_size = 8|[strategy]|name = \"ddp\"|backend = \"cuda:gloo\"",
     "[mesh]|world_size = 8|[strategy]|name = \"ddp\"|backend = \"gloo\"", "llama-3.2-1b",
     kWarning},
    {"strategy.float32", "[mesh]|world_size = 8|[strategy]|name = \"ddp\"|backend = \"nccl\"",
     "[mesh]|world_size = 8|[strategy]|name = \"ddp\"|backend = \"nccl\"|autocast_dtype = "
     "\"bfloat16\"",
     "llama-3.1-8b", kWarning},
    {"strategy.autocast",
     "[mesh]|world_size = 8|[strategy]|name = \"ddp\"|autocast_dtype = \"float32\"",
     "[mesh]|world_size = 8|[strategy]|name = \"ddp\"|autocast_dtype = \"bfloat16\""},
    {"strategy.float32",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron_fsdp\"|backend = \"nccl\"",
     "dtype = \"bfloat16\"|[mesh]|world_size = 8|[strategy]|name = \"megatron_fsdp\"|"
     "backend = \"nccl\"",
     "llama-3.1-8b", kWarning},
    {"strategy.fp8",
     "[mesh]|world_size = 8|[strategy]|fp8 = \"tensorwise\"|[cluster]|gpu = \"a100-sxm\"",
     "[mesh]|world_size = 8|[strategy]|fp8 = \"tensorwise\"|[cluster]|gpu = \"h100-sxm\""},
    {"strategy.fp8",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|fp8 = \"mxfp8\"|[cluster]|gpu = "
     "\"h100-sxm\"",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|fp8 = \"mxfp8\"|[cluster]|gpu = "
     "\"b200-sxm\""},
    {"strategy.fp8",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|fp8 = \"nvfp4\"|[cluster]|gpu = "
     "\"h100-sxm\"",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|fp8 = \"delayed\"|[cluster]|gpu = "
     "\"h100-sxm\""},
    {"strategy.fp8", "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|fp8 = \"rowwise\"",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|fp8 = \"tensorwise\""},
    {"strategy.fp8",
     "[mesh]|world_size = 128|[strategy]|name = \"megatron\"|fp8 = \"mxfp8\"|etp_size = 128",
     "[mesh]|world_size = 128|[strategy]|name = \"megatron\"|fp8 = \"mxfp8\"|etp_size = 64",
     "mixtral-8x7b-v0.1"},
    {"strategy.optimizer_instances",
     "[mesh]|world_size = 8|dp_replicate_size = 2|[strategy]|name = \"megatron\"|zero = 0",
     "[mesh]|world_size = 8|dp_replicate_size = 2|[strategy]|name = \"megatron\""},
    {"strategy.optimizer_instances",
     "[mesh]|world_size = 16|dp_replicate_size = 4|ep_size = 8|[strategy]|name = \"megatron\"",
     "[mesh]|world_size = 16|dp_replicate_size = 2|ep_size = 8|[strategy]|name = \"megatron\"",
     "mixtral-8x7b-v0.1"},
    {"mesh.etp",
     "[mesh]|world_size = 8|tp_size = 2|ep_size = 8|[strategy]|name = \"megatron\"|"
     "sequence_parallel = true",
     "[mesh]|world_size = 8|tp_size = 2|ep_size = 8|[strategy]|name = \"megatron\"|"
     "sequence_parallel = true|etp_size = 1",
     "mixtral-8x7b-v0.1"},
    {"strategy.etp", "[mesh]|world_size = 6|[strategy]|name = \"megatron\"|etp_size = 3",
     "[mesh]|world_size = 6|[strategy]|name = \"megatron\"|etp_size = 2", "mixtral-8x7b-v0.1"},
    {"strategy.etp", "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|etp_size = 2",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\""},
    {"strategy.moe_sequence", "[mesh]|world_size = 8|tp_size = 2|[strategy]|name = \"megatron\"",
     "[mesh]|world_size = 8|tp_size = 2|[strategy]|name = \"megatron\"|sequence_parallel = true",
     "mixtral-8x7b-v0.1"},
    {"pp.megatron",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|schedule = \"gpipe\"|[strategy]|"
     "name = \"megatron\"",
     "[mesh]|world_size = 4|pp_size = 4|[strategy]|name = \"megatron\""},
    {"pp.megatron",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|schedule = \"interleaved_zero_bubble\"|"
     "[strategy]|name = \"megatron\"",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|schedule = \"interleaved_zero_bubble\"|"
     "[strategy]|name = \"megatron\"|[cluster]|implementation = \"megatron-zero-bubble\""},
    {"pp.megatron",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|microbatches = 4|[train]|global_batch_size = 8|"
     "[strategy]|name = \"megatron\"",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|microbatches = 8|[train]|global_batch_size = 8|"
     "[strategy]|name = \"megatron\""},
    {"pp.megatron",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|schedule = \"interleaved_1f1b\"|"
     "virtual_stages = 2|[train]|global_batch_size = 6|[strategy]|name = \"megatron\"",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|schedule = \"interleaved_1f1b\"|"
     "virtual_stages = 2|[train]|global_batch_size = 8|[strategy]|name = \"megatron\""},
    {"strategy.recompute",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|activation_checkpointing = \"mlp\"",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|recompute_modules = [\"mlp\"]"},
    {"strategy.recompute",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|recompute_num_layers = 33",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|recompute_num_layers = 32"},
    {"strategy.recompute",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|activation_checkpointing = true|"
     "recompute_method = \"block\"",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|activation_checkpointing = true|"
     "recompute_method = \"block\"|recompute_num_layers = 4"},
    {"strategy.recompute",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|recompute_modules = [\"moe_act\"]",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|recompute_modules = [\"layernorm\"]"},
    {"strategy.overlap_gather",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|overlap_grad_reduce = false",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|overlap_grad_reduce = false|"
     "overlap_param_gather = false"},
    {"strategy.implementation",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|[cluster]|"
     "implementation = \"torchtitan\"",
     "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|[cluster]|implementation = "
     "\"automesh\""},
    {"data.examples", "[mesh]|world_size = 8|[data]|packing = false",
     "[mesh]|world_size = 8|[data]|kind = \"synthetic_chat\"|packing = false", "llama-3.1-8b",
     kWarning},
    {"tp.plugin", "[mesh]|world_size = 2|[strategy]|tp_plan = \"libmine.so:plan\"",
     "[mesh]|world_size = 2|[strategy]|tp_plan = \"llama\""},
    {"model.freeze_params", "freeze_params = [\"model.embed.*\"]|[mesh]|world_size = 8",
     "freeze_params = [\"model.embed*\"]|[mesh]|world_size = 8"},
    {"model.freeze_params", "freeze_params = [\"model.*\", \"lm_head.*\"]|[mesh]|world_size = 8",
     "freeze_params = [\"model.*\"]|[mesh]|world_size = 8"},
    {"lora.rank", "[mesh]|world_size = 8|[lora]|alpha = 4.0",
     "[mesh]|world_size = 8|[lora]|rank = 4|alpha = 4.0", "llama-3.1-8b", kWarning},
    {"lora.target_modules",
     "[mesh]|world_size = 8|[lora]|rank = 4|target_modules = [\"q_proj\", \"qkv_proj\"]",
     "[mesh]|world_size = 8|[lora]|rank = 4|target_modules = [\"q_proj\", \"lm_head\"]"},
    {"lora.target_modules", "[mesh]|world_size = 8|[lora]|rank = 4|target_modules = []",
     "[mesh]|world_size = 8|[lora]|rank = 4|target_modules = [\"all-linear\"]"},
    // Routed experts cannot have adapters.
    {"lora.target_modules",
     "[mesh]|world_size = 8|[lora]|rank = 4|target_modules = [\"gate_proj\"]",
     "[mesh]|world_size = 8|[lora]|rank = 4|target_modules = [\"model.*\"]", "qwen3-30b-a3b"},
    {"lora.modules_to_save", "[mesh]|world_size = 8|[lora]|rank = 4|modules_to_save = [\"q_proj\"]",
     "[mesh]|world_size = 8|[lora]|rank = 4|modules_to_save = [\"lm_head\", \"embed_tokens\"]"},
    {"lora.modules_to_save", "[mesh]|world_size = 8|[lora]|rank = 4|modules_to_save = [\"head\"]",
     "[mesh]|world_size = 8|[lora]|rank = 4|modules_to_save = [\"*norm\"]"},
    {"lora.use_dora", "[mesh]|world_size = 8|[lora]|rank = 4|use_dora = true|dropout = 0.1",
     "[mesh]|world_size = 8|[lora]|rank = 4|use_dora = true"},
    {"lora.quantize_base",
     "[mesh]|world_size = 8|[lora]|rank = 4|quantize_base = \"nf4\"|[strategy]|name = \"ddp\"",
     "[mesh]|world_size = 8|[lora]|rank = 4|quantize_base = \"nf4\""},
    {"lora.quantize_base",
     "[mesh]|world_size = 8|pp_size = 2|[lora]|rank = 4|quantize_base = \"nf4\"",
     "[mesh]|world_size = 8|pp_size = 2|[lora]|rank = 4|quantize_base = \"nf4\"|[strategy]|"
     "reshard_after_forward = true",
     "llama-3.1-8b", kWarning},
    {"optimizer.ema_decay",
     "dtype = \"bfloat16\"|[mesh]|world_size = 8|[optimizer]|ema_decay = 0.999",
     "[mesh]|world_size = 8|[optimizer]|ema_decay = 0.999"},
    {"lora.weights", "[mesh]|world_size = 8|[lora]|rank = 4|weights = \"no/adapter\"",
     "[mesh]|world_size = 8|[lora]|rank = 4"},
    {"strategy.ignored_params", "[mesh]|world_size = 8|[strategy]|ignored_params = [\"lm_head\"]",
     "[mesh]|world_size = 8|[strategy]|ignored_params = [\"lm_head.weight\"]"},
    {"strategy.shard_placement",
     "[mesh]|world_size = 8|[strategy]|shard_placement = { \"model.norm.weight\" = 1 }",
     "[mesh]|world_size = 8|[strategy]|shard_placement = { \"model.norm.weight\" = 0 }"},
    {"strategy.shard_placement", "[mesh]|world_size = 8|[strategy]|shard_placement = { \"*\" = 1 }",
     "[mesh]|world_size = 8|[strategy]|shard_placement = { \"*\" = 1, \"*norm.weight\" = 0 }"},
    {"strategy.shard_placement",
     "[mesh]|world_size = 3|[strategy]|shard_placement = { \"lm_head.weight\" = 1 }",
     "[mesh]|world_size = 4|[strategy]|shard_placement = { \"lm_head.weight\" = 1 }"},
    {"strategy.autocast", "[mesh]|world_size = 8|[strategy]|autocast_dtype = \"float32\"",
     "[mesh]|world_size = 8|[strategy]|autocast_dtype = \"bfloat16\""},
    {"strategy.unit_modules",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|"
     "megatron_fsdp_unit_modules = [\"Qwen3DecoderLayer\"]",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|"
     "megatron_fsdp_unit_modules = [\"LlamaDecoderLayer\"]"},
    {"strategy.average",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|average_in_collective = true|"
     "calculate_per_token_loss = true",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|calculate_per_token_loss = true"},
    {"strategy.meta_device",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|"
     "init_fsdp_with_meta_device = true|zero_dp_strategy = 0",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|"
     "init_fsdp_with_meta_device = true|zero_dp_strategy = 1"},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|average_in_collective = true",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|average_in_collective = false",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|offload_policy = { pin_memory = true }|backend = \"gloo\"",
     "[mesh]|world_size = 2|[strategy]|offload_policy = { pin_memory = true }|backend = \"nccl\"",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|offload_policy = { pin_memory = true }|backend = \"gloo\"",
     "[mesh]|world_size = 2|[strategy]|offload_policy = { pin_memory = true }|"
     "backend = \"cuda:gloo\"",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|nccl_ub = true|"
     "fsdp_double_buffer = true|backend = \"cuda:gloo\"",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|nccl_ub = true|"
     "fsdp_double_buffer = true|backend = \"nccl\"",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect", "[mesh]|world_size = 2|[strategy]|activation_checkpointing_every = 2",
     "[mesh]|world_size = 2|[strategy]|activation_checkpointing_every = 2|"
     "activation_checkpointing = true",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect", "[mesh]|world_size = 2|[strategy]|fsdp2_forward_prefetch_depth = 2",
     "[mesh]|world_size = 2|[strategy]|fsdp2_forward_prefetch_depth = 2|"
     "enable_fsdp2_prefetch = true",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect", "[mesh]|world_size = 2|[strategy]|fsdp2_backward_prefetch_depth = 2",
     "[mesh]|world_size = 2|[strategy]|fsdp2_backward_prefetch_depth = 2|"
     "enable_fsdp2_prefetch = true",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|calculate_per_token_loss = false",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|calculate_per_token_loss = true",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|"
     "init_fsdp_with_meta_device = false",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|"
     "init_fsdp_with_meta_device = true",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|fsdp_double_buffer = true|"
     "zero_dp_strategy = 2",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|fsdp_double_buffer = true",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|gradient_as_bucket_view = false",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|gradient_as_bucket_view = true",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.no_effect", "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|static_graph = true",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|static_graph = false", "llama-3.1-8b",
     Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|broadcast_buffers = true",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|broadcast_buffers = false", "llama-3.1-8b",
     Severity::kNote},
    {"strategy.no_effect",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|find_unused_parameters = true",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|find_unused_parameters = false",
     "llama-3.1-8b", Severity::kNote},
    {"strategy.bucketing",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|disable_bucketing = true",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|disable_bucketing = true|"
     "zero_dp_strategy = 2"},
    {"strategy.overlap",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|overlap_grad_reduce = false",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|overlap_grad_reduce = false|"
     "overlap_param_gather = false|zero_dp_strategy = 1",
     "llama-3.1-8b", kWarning},
    {"strategy.overlap",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|overlap_param_gather = false",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|overlap_param_gather = false|"
     "zero_dp_strategy = 2",
     "llama-3.1-8b", kWarning},
    {"strategy.nccl_ub", "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|nccl_ub = true",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|nccl_ub = true|"
     "fsdp_double_buffer = true",
     "llama-3.1-8b", kWarning},
    {"tp.heads", "[mesh]|world_size = 7|tp_size = 7", "[mesh]|world_size = 4|tp_size = 4"},
    {"tp.kv_heads", "[mesh]|world_size = 12|tp_size = 12", "[mesh]|world_size = 8|tp_size = 8",
     "llama-3.2-3b"},
    {"tp.ffn",
     "[mesh]|world_size = 3|tp_size = 3|[strategy]|tp_plan = { \"model.layers.*.mlp."
     "{gate,up}_proj\" = \"colwise\", \"model.layers.*.mlp.down_proj\" = \"rowwise\" }",
     "[mesh]|world_size = 7|tp_size = 7|[strategy]|tp_plan = { \"model.layers.*.mlp."
     "{gate,up}_proj\" = \"colwise\", \"model.layers.*.mlp.down_proj\" = \"rowwise\" }",
     "llama-3.1-8b", kWarning},
    {"tp.vocab", "[mesh]|world_size = 2|tp_size = 2|[train]|seq_len = 1024",
     "[mesh]|world_size = 1|[train]|seq_len = 1024", "gpt2", kWarning},
    {"tp.hidden",
     "[mesh]|world_size = 5|tp_size = 5|[strategy]|tp_plan = { \"model.layers.*.self_attn."
     "qkv_proj\" = \"rowwise_rep\", \"model.layers.*.self_attn.o_proj\" = \"colwise_rep\" }",
     "[mesh]|world_size = 4|tp_size = 4|[strategy]|tp_plan = { \"model.layers.*.self_attn."
     "qkv_proj\" = \"rowwise_rep\", \"model.layers.*.self_attn.o_proj\" = \"colwise_rep\" }",
     "phi-3-mini-4k", kWarning},
    {"tp.sequence", "[mesh]|world_size = 2|[strategy]|sequence_parallel = true",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|sequence_parallel = true", "llama-3.1-8b",
     kWarning},
    {"tp.plan", "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = \"lama\"",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = \"llama\""},
    {"tp.pattern",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = { \"lm_hed\" = \"colwise\" }",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = { \"lm_head\" = \"colwise\" }"},
    {"tp.style",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = { \"lm_head\" = \"colwize\" }",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = { \"lm_head\" = \"colwise\" }"},
    {"tp.pair",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = { \"model.layers.*.mlp.up_proj\" = "
     "\"colwise\" }",
     "[mesh]|world_size = 2|tp_size = 2|[strategy]|tp_plan = { \"lm_head\" = \"colwise\" }"},
    {"pp.section", "[mesh]|world_size = 2|[pipeline]|microbatches = 2",
     "[mesh]|world_size = 2|pp_size = 2|[pipeline]|microbatches = 2|[train]|global_batch_size = 2",
     "llama-3.1-8b", kWarning},
    {"pp.virtual_stages", "[mesh]|world_size = 2|pp_size = 2|[pipeline]|virtual_stages = 2",
     "[mesh]|world_size = 2|pp_size = 2|[pipeline]|virtual_stages = 2|"
     "schedule = \"looped_bfs\""},
    {"pp.schedule", "[mesh]|world_size = 4|pp_size = 4|[pipeline]|microbatches = 2",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|microbatches = 2|schedule = \"gpipe\""},
    {"pp.layers", "[mesh]|world_size = 64|pp_size = 64", "[mesh]|world_size = 32|pp_size = 32"},
    {"pp.layers",
     "[mesh]|world_size = 17|pp_size = 17|[pipeline]|schedule = \"interleaved_1f1b\"|"
     "virtual_stages = 2",
     "[mesh]|world_size = 17|pp_size = 17|[pipeline]|schedule = \"interleaved_1f1b\"|"
     "virtual_stages = 2|split_points = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
     "17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]"},
    {"pp.even", "[mesh]|world_size = 3|pp_size = 3",
     "[mesh]|world_size = 3|pp_size = 3|[pipeline]|split_points = [11, 22]", "llama-3.1-8b",
     Severity::kNote},
    {"pp.split_points", "[mesh]|world_size = 4|pp_size = 4|[pipeline]|split_points = [4, 8]",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|split_points = [4, 8, 20]"},
    {"pp.split_points", "[mesh]|world_size = 4|pp_size = 4|[pipeline]|split_points = [0, 8, 33]",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|split_points = [0, 8, 32]"},
    {"pp.schedule_file", "[mesh]|world_size = 2|pp_size = 2|[pipeline]|schedule = \"no/such.csv\"",
     "[mesh]|world_size = 2|pp_size = 2|[pipeline]|virtual_stages = 2|schedule = "
     "\"SOURCE/tests/data/schedules/own.csv\""},
    {"pp.balance",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|balance = \"cost\"|split_points = [4, 8, 20]",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|balance = \"cost\"", "llama-3.1-8b", kWarning},
    {"pp.microbatches",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|microbatches = 4|[train]|global_batch_size = 6",
     "[mesh]|world_size = 4|pp_size = 4|[pipeline]|microbatches = 4|[train]|"
     "global_batch_size = 8"},
    {"batch.size", "[mesh]|world_size = 8|[train]|global_batch_size = 4",
     "[mesh]|world_size = 8|[train]|global_batch_size = 8"},
    {"batch.divide", "[mesh]|world_size = 8|[train]|global_batch_size = 12",
     "[mesh]|world_size = 8|[train]|global_batch_size = 16"},
    {"seq.length", "[mesh]|world_size = 1|[train]|seq_len = 131073",
     "[mesh]|world_size = 1|[train]|seq_len = 131072", "llama-3.1-8b", kWarning},
    {"seq.length", "[mesh]|world_size = 1|[train]|seq_len = 1025",
     "[mesh]|world_size = 1|[train]|seq_len = 1024", "gpt2"},
    {"seq.sp",
     "[mesh]|world_size = 4|tp_size = 4|[strategy]|sequence_parallel = true|"
     "[train]|seq_len = 1002",
     "[mesh]|world_size = 4|tp_size = 4|[strategy]|sequence_parallel = true|"
     "[train]|seq_len = 1004"},
    {"seq.cp", "[mesh]|world_size = 4|cp_size = 4|[train]|seq_len = 1004",
     "[mesh]|world_size = 4|cp_size = 4|[train]|seq_len = 1008", "llama-3.1-8b", kNote},
    {"seq.cp",
     "[mesh]|world_size = 4|tp_size = 2|cp_size = 2|[strategy]|sequence_parallel = true|"
     "[train]|seq_len = 1004",
     "[mesh]|world_size = 4|tp_size = 2|cp_size = 2|[strategy]|sequence_parallel = true|"
     "[train]|seq_len = 1008",
     "llama-3.1-8b", kNote},
    {"cp.section", "[mesh]|world_size = 8|[context]|method = \"ulysses\"",
     "[mesh]|world_size = 8|cp_size = 2|[context]|method = \"ulysses\"", "llama-3.1-8b", kWarning},
    // The model has 32 heads; each tp rank has 8 of them.
    {"cp.heads", "[mesh]|world_size = 64|tp_size = 4|cp_size = 16|[context]|method = \"ulysses\"",
     "[mesh]|world_size = 64|tp_size = 4|cp_size = 16"},
    {"cp.heads", "[mesh]|world_size = 64|tp_size = 4|cp_size = 16|[context]|method = \"ulysses\"",
     "[mesh]|world_size = 64|tp_size = 4|cp_size = 8|[context]|method = \"ulysses\""},
    {"model.weights", "[mesh]|world_size = 1", "[mesh]|world_size = 1"},
    {"data.missing", "[mesh]|world_size = 1|[data]|kind = \"tokens\"|path = \"no.bin\"",
     "[mesh]|world_size = 1|[data]|kind = \"synthetic\""},
    {"data.documents", "[mesh]|world_size = 2|[data]|reset_position_ids = true",
     "[mesh]|world_size = 2|[data]|reset_position_ids = true|eod_token = 2"},
    {"data.documents", "[mesh]|world_size = 2|[data]|eod_token = 128256",
     "[mesh]|world_size = 2|[data]|eod_token = 128255"},
    {"data.eod_token", "[mesh]|world_size = 2|[data]|eod_token = \"</s>\"",
     "[mesh]|world_size = 2|[data]|eod_token = 2"},
    {"strategy.no_effect", "[mesh]|world_size = 2|[strategy]|patch_is_packed_sequence = true",
     "[mesh]|world_size = 2|[strategy]|patch_is_packed_sequence = true|[data]|"
     "reset_position_ids = true|eod_token = 2",
     "llama-3.1-8b", Severity::kNote},
    {"data.tokenizer",
     "[mesh]|world_size = 1|[data]|kind = \"text\"|path = \"no.txt\"|tokenizer = \"no.json\"",
     "[mesh]|world_size = 1|[data]|kind = \"text\"|path = \"no.txt\"|tokenizer = \"bytes\""},
    {"data.token_dtype", "[mesh]|world_size = 1|[data]|kind = \"tokens\"|path = \"no.bin\"",
     "[mesh]|world_size = 1|[data]|kind = \"tokens\"|path = \"no.bin\"|token_dtype = \"uint32\"",
     "llama-3.1-8b", kWarning},
    {"train.float16", "dtype = \"float16\"|[mesh]|world_size = 2",
     "[mesh]|world_size = 2|[strategy]|mp_policy = { param_dtype = \"float16\" }"},
    {"train.float16",
     "dtype = \"float16\"|[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"",
     "dtype = \"float16\"|[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|"
     "preserve_fp32_weights = true"},
    {"train.on_nonfinite",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|[train]|on_nonfinite = \"skip\"",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|check_for_nan_in_grad = false|"
     "[train]|on_nonfinite = \"skip\"",
     "llama-3.1-8b", kWarning},
    {"train.on_nonfinite",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|check_for_nan_in_grad = false|"
     "report_nan_in_param_grad = true|[train]|on_nonfinite = \"skip\"",
     "[mesh]|world_size = 2|[strategy]|name = \"megatron_fsdp\"|check_for_nan_in_grad = false|"
     "[train]|on_nonfinite = \"skip\"",
     "llama-3.1-8b", kWarning},
    {"train.loss_scale",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|[train]|loss_scale = 1024",
     "[mesh]|world_size = 2|[strategy]|name = \"ddp\"|autocast_dtype = \"float16\"|[train]|"
     "loss_scale = 1024",
     "llama-3.1-8b", kWarning},
    {"train.loss_scale", "[mesh]|world_size = 2|[train]|loss_scale = 1024",
     "[mesh]|world_size = 2|[strategy]|autocast_dtype = \"float16\"|[train]|loss_scale = 1024",
     "llama-3.1-8b", kWarning},
    {"optimizer.keys", "[mesh]|world_size = 1|[optimizer]|name = \"sgd\"|betas = [0.9, 0.95]",
     "[mesh]|world_size = 1|[optimizer]|name = \"muon\"|betas = [0.9, 0.95]", "llama-3.1-8b",
     kWarning},
    {"optimizer.keys", "[mesh]|world_size = 1|[optimizer]|momentum = 0.9",
     "[mesh]|world_size = 1|[optimizer]|name = \"sgd\"|momentum = 0.9", "llama-3.1-8b", kWarning},
    {"optimizer.nesterov", "[mesh]|world_size = 1|[optimizer]|name = \"sgd\"|nesterov = true",
     "[mesh]|world_size = 1|[optimizer]|name = \"sgd\"|nesterov = true|momentum = 0.9"},
    {"optimizer.no_decay", "[mesh]|world_size = 1|[optimizer]|no_decay = [\"*norm\"]",
     "[mesh]|world_size = 1|[optimizer]|no_decay = [\"*norm*\"]"},
    {"experts.balancing", "[mesh]|world_size = 1|[experts]|balancing = \"sequence\"",
     "[mesh]|world_size = 1|[experts]|balancing = \"none\""},
    {"experts.balancing", "[mesh]|world_size = 1|[experts]|balancing = \"bias\"",
     "[mesh]|world_size = 1|[experts]|balancing = \"sequence\"", "qwen3-30b-a3b"},
    {"experts.keys", "[mesh]|world_size = 1|[experts]|balancing = \"sequence\"|rate = 0.1",
     "[mesh]|world_size = 1|[experts]|balancing = \"sequence\"|coefficient = 0.1", "qwen3-30b-a3b",
     kWarning},
    {"validation.path",
     "[mesh]|world_size = 1|[data]|kind = \"text\"|path = \".\"|[validation]|every = 5",
     "[mesh]|world_size = 1|[validation]|every = 5"},
    {"validation.missing",
     "[mesh]|world_size = 1|[data]|kind = \"text\"|path = \".\"|[validation]|every = 5|"
     "path = \"no/such\"",
     "[mesh]|world_size = 1|[data]|kind = \"text\"|path = \".\"|[validation]|every = 5|path = "
     "\".\""},
    {"scheduler.warmup", "[mesh]|world_size = 1|[scheduler]|warmup_steps = 101",
     "[mesh]|world_size = 1|[scheduler]|warmup_steps = 100"},
    {"scheduler.decay",
     "[mesh]|world_size = 1|[scheduler]|name = \"wsd\"|warmup_steps = 60|decay_steps = 41",
     "[mesh]|world_size = 1|[scheduler]|name = \"wsd\"|warmup_steps = 60|decay_steps = 40"},
    {"scheduler.min_lr", "[mesh]|world_size = 1|[scheduler]|name = \"linear\"|min_lr = 1.0",
     "[mesh]|world_size = 1|[scheduler]|name = \"linear\"|min_lr = 1e-4"},
    {"data.source", "[mesh]|world_size = 1|[data]|source = [{ path = \".\" }]",
     "[mesh]|world_size = 1|[data]|source = [{ path = \".\", kind = \"text\" }]"},
    {"data.source",
     "[mesh]|world_size = 1|[data]|source = [{ path = \".\", kind = \"text\", weight = 0 }]",
     "[mesh]|world_size = 1|[data]|source = [{ path = \".\", kind = \"text\", weight = 0.1 }]"},
    {"data.source",
     "[mesh]|world_size = 1|[train]|epochs = 1|[data]|source = [{ path = \".\", kind = \"text\" }]",
     "[mesh]|world_size = 1|[data]|source = [{ path = \".\", kind = \"text\", epochs = 1 }]"},
    {"data.missing", "[mesh]|world_size = 1|[data]|source = [{ path = \"no\", kind = \"text\" }]",
     "[mesh]|world_size = 1|[data]|source = [{ path = \".\", kind = \"text\" }]"},
    {"data.synthetic", "[mesh]|world_size = 1|[train]|epochs = 2",
     "[mesh]|world_size = 1|[train]|max_steps = 2"},
    {"data.synthetic", "weights = \".\"|[mesh]|world_size = 1",
     "weights = \"none\"|[mesh]|world_size = 1", "llama-3.1-8b", kWarning},
    {"scheduler.warmup", "[mesh]|world_size = 1|[train]|max_steps = 5|[scheduler]|warmup_steps = 9",
     "[mesh]|world_size = 1|[train]|max_tokens = 5|[scheduler]|warmup_steps = 900"},
    {"validation.set",
     "[mesh]|world_size = 1|[validation]|set = [{ name = \"a\", path = [], kind = \"text\" }]",
     "[mesh]|world_size = 1|[validation]|set = [{ name = \"a\", path = [\"x\"], kind = "
     "\"text\" }]"},
    {"validation.set",
     "[mesh]|world_size = 1|[validation]|set = [{ name = \"a b\", path = \"x\", kind = \"text\" }]",
     "[mesh]|world_size = 1|[validation]|set = [{ name = \"a-b\", path = \"x\", kind = \"text\" "
     "}]"},
    {"validation.set", "[mesh]|world_size = 1|[validation]|set = [{ name = \"a\", path = \"x\" }]",
     "[mesh]|world_size = 1|[validation]|set = [{ name = \"a\", path = \"x\", kind = \"text\" }]"},
    {"validation.patience", "[mesh]|world_size = 1|[validation]|patience = 3",
     "[mesh]|world_size = 1|[validation]|every = 1|patience = 3"},
    {"validation.patience", "[mesh]|world_size = 1|[validation]|every = 1|steps = 0",
     "[mesh]|world_size = 1|[validation]|every = 1|steps = 1"},
    {"checkpoint.keep_best", "[mesh]|world_size = 1|[checkpoint]|keep = 1|keep_best = 1",
     "[mesh]|world_size = 1|[validation]|every = 5|[checkpoint]|keep = 1|keep_best = 1"},
    {"checkpoint.keep_best",
     "[mesh]|world_size = 1|[validation]|every = 5|[checkpoint]|every = 7|keep = 1|keep_best = 1",
     "[mesh]|world_size = 1|[validation]|every = 5|[checkpoint]|every = 10|keep = 1|keep_best = 1"},
    {"metrics.trace", "[mesh]|world_size = 2|[metrics]|trace = { ranks = [0, 2] }",
     "[mesh]|world_size = 2|[metrics]|trace = { ranks = [0, 1] }"},
    {"metrics.trace", "[mesh]|world_size = 1|[train]|max_steps = 5|[metrics]|trace = { start = 6 }",
     "[mesh]|world_size = 1|[train]|max_steps = 5|[metrics]|trace = { start = 5 }"},
    {"checkpoint.export_every", "[mesh]|world_size = 1|[checkpoint]|export_every = 5",
     "[mesh]|world_size = 1|[checkpoint]|export_every = 5|export = \"hf\""},
    {"optimizer.group",
     "[mesh]|world_size = 1|[optimizer]|group = [{ match = \"*norm\", lr = 0.1 }]",
     "[mesh]|world_size = 1|[optimizer]|group = [{ match = \"*norm*\", lr = 0.1 }]"},
    {"optimizer.group",
     "[mesh]|world_size = 1|[optimizer]|group = [{ match = \"*norm*\", name = \"adamw\" }]",
     "[mesh]|world_size = 1|[optimizer]|name = \"muon\"|group = [{ match = \"*norm*\", name = "
     "\"adamw\" }]",
     "llama-3.1-8b", kWarning},
    {"checkpoint.resume", "[mesh]|world_size = 1|[checkpoint]|resume = \"runs/none\"",
     "[mesh]|world_size = 1|[checkpoint]|resume = \"none\""},
    {"cluster.gpu", "[mesh]|world_size = 1|[cluster]|gpu = \"h100-sxn\"",
     "[mesh]|world_size = 1|[cluster]|gpu = \"h100-sxm\""},
    {"cluster.implementation", "[mesh]|world_size = 1|[cluster]|implementation = \"megatrn\"",
     "[mesh]|world_size = 1|[cluster]|implementation = \"megatron\""},
    {"cluster.failures", "[mesh]|world_size = 1|[cluster]|hours_between_failures = 50700",
     "[mesh]|world_size = 1|[cluster]|hours_between_failures = 50700|storage_gb_per_s = 100",
     "llama-3.1-8b", kWarning},
    {"cluster.nodes", "[mesh]|world_size = 16|[cluster]|nodes = 1",
     "[mesh]|world_size = 16|[cluster]|nodes = 2", "llama-3.1-8b", kWarning},
};

Diagnostics check(const RuleCase& one, bool failing) {
  std::string text = am::test::toml(failing ? one.fails : one.passes);
  constexpr std::string_view kRoot = "SOURCE/";
  if (const size_t at = text.find(kRoot); at != std::string::npos) {
    text.replace(at, kRoot.size() - 1, am::test::kSourceFolder);
  }
  am::config::Plan plan = am::test::plan_of(text, one.model);
  // plan_of writes [model] itself.
  if (failing && one.rule == std::string_view("model.weights")) plan.model.weights = "no/weights";
  Diagnostics found;
  am::rules::check(plan, 0, found);
  return found;
}

// Returns whether rules::check() never reports the rule for a loaded plan. A loader, a check on the
// machine that runs the job, or another command reports the rule instead, or the loader changes the
// plan to satisfy the rule.
bool is_reported_elsewhere(std::string_view id) {
  for (const std::string_view topic :
       {"plan.", "json.", "schedule.", "runtime.", "launch.", "csv.", "exchange.", "predict.",
        "torchtitan.", "megatron.", "nemo-automodel."}) {
    if (am::starts_with(id, topic)) return true;
  }
  if (id == "model.weights" || id == "model.freeze_params") return false;
  if (am::starts_with(id, "model.")) return true;
  const std::set<std::string_view> single = {"strategy.async_tp", "data.path", "tp.qk_norm",
                                             "cluster.key", "cluster.calibration"};
  return single.count(id) == 1;
}

TEST_CASE("each rule refuses one plan and lets another pass") {
  for (const RuleCase& one : kCases) {
    INFO(one.rule << ": " << one.fails);
    const Diagnostics failing = check(one, true);
    const auto found = std::find_if(failing.items().begin(), failing.items().end(),
                                    [&](const auto& item) { return item.rule == one.rule; });
    CHECK(found != failing.items().end());
    if (found == failing.items().end()) continue;
    CHECK(found->severity == one.severity);
    CHECK_FALSE(found->message.empty());
    CHECK_FALSE(found->help.empty());
    const auto left = ids(check(one, false));
    CHECK(std::find(left.begin(), left.end(), one.rule) == left.end());
  }
}

TEST_CASE("every rule that a plan can break has a case") {
  std::set<std::string_view> tried;
  for (const RuleCase& one : kCases) {
    tried.insert(one.rule);
    INFO(one.rule);
    CHECK(am::rules::find_rule(one.rule) != nullptr);
  }
  for (const auto* rule : am::rules::all_rules()) {
    INFO(std::string(rule->id));
    CHECK((tried.count(rule->id) == 1) != is_reported_elsewhere(rule->id));
  }
}

TEST_CASE("sizes that make no world hide nothing that does not need one") {
  const auto found = [](const char* text) {
    Diagnostics all;
    am::rules::check(am::test::plan_of(am::test::toml(text)), 0, all);
    return ids(all);
  };
  using Ids = std::vector<std::string>;
  CHECK(found("[mesh]|world_size = 10|tp_size = 7|pp_size = 64|cp_size = 3|[train]|"
              "seq_len = 1001|[strategy]|sequence_parallel = true") ==
        Ids{"tp.heads", "tp.kv_heads", "tp.vocab", "mesh.divide", "pp.layers", "seq.cp"});
  // Without world_size and dp_size, the number of ranks is unknown.
  CHECK(found("[mesh]|tp_size = 3|ranks_per_node = 16") ==
        Ids{"mesh.world", "tp.heads", "tp.kv_heads", "tp.ffn"});
  // A dp_size that does not match world_size is used unchanged.
  CHECK(found("[mesh]|world_size = 64|dp_size = 6|dp_replicate_size = 4|tp_size = 2|[train]|"
              "global_batch_size = 8") == Ids{"mesh.product", "mesh.replicate", "batch.divide"});
}

}  // namespace
