#include "am/config/write.h"

#include <catch2/catch.hpp>
#include <set>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/config/plan.h"

using namespace am;
using namespace am::config;

namespace {

Plan load(const std::string& text) {
  Diagnostics found;
  auto plan = parse_plan(text, "/plans/p.toml", {}, found);
  for (const Diagnostic& each : found.items()) UNSCOPED_INFO(each.message << each.span.source);
  REQUIRE(plan);
  return *plan;
}

// kFsdp2, kMegatron, kDdp and kDistributedOptimizer together set every key to a value other than
// its default.
const std::string kFsdp2 = R"(
[model]
path = "/m"
weights = "none"
dtype = "bfloat16"
seed = 3
freeze_params = ["model.embed_tokens.*", "b"]
[mesh]
world_size = 64
dp_size = 2
dp_replicate_size = 2
tp_size = 2
pp_size = 4
cp_size = 4
ep_size = 2
ranks_per_node = 4
[strategy]
name = "fsdp2"
sequence_parallel = true
tp_plan = { "model.layers.*.q" = "colwise", "we\"ird\\ \u0001é" = "rowwise", b-_9 = "x" }
patch_is_packed_sequence = true
mp_policy = { param_dtype = "none", reduce_dtype = "float16", output_dtype = "none", cast_forward_inputs = false }
offload_policy = { pin_memory = false }
autocast_dtype = "float16"
activation_checkpointing = "selective"
activation_checkpointing_every = 2
defer_fsdp_grad_sync = false
backend = "nccl"
fp8 = "tensorwise"
reshard_after_forward = 2
enable_async_tensor_parallel = true
enable_compile = true
enable_fsdp2_prefetch = true
fsdp2_backward_prefetch_depth = 3
fsdp2_forward_prefetch_depth = 4
shard_placement = { "model.layers.*.mlp.down_proj.weight" = 1, "*.q\"" = 0 }
ignored_params = ["model.norm.*", "*.bias"]
[pipeline]
schedule = "gpipe"
microbatches = 8
virtual_stages = 2
split_points = [3, 7, 9]
balance = "cost"
[context]
method = "ulysses"
[experts]
balancing = "bias"
rate = 0.002
coefficient = 0.003
[lora]
rank = 4
alpha = 6
use_rslora = true
loraplus_lr_ratio = 16
modules_to_save = ["lm_head"]
use_dora = true
quantize_base = "nf4"
dropout = 0.1
target_modules = ["o_proj", "*.mlp.*"]
weights = "/adapter"
merge = true
[train]
seq_len = 128
micro_batch_size = 2
global_batch_size = 16
max_steps = 7
epochs = 2
max_tokens = 5000
max_time = "1d1.5s"
max_grad_norm = 0.1
label_smoothing = 0.1
z_loss = 1e-4
neftune_noise_alpha = 5
on_nonfinite = "skip"
loss_scale = 1024
seed = 9
deterministic = true
matmul_precision = "high"
[optimizer]
name = "muon"
lr = 0.30000000000000004
betas = [0.8, 0.95]
eps = 1e-300
weight_decay = 5
no_decay = ["*.bias", "*norm*"]
momentum = 0.5
nesterov = false
adjust_lr = "match_rms_adamw"
ema_decay = 0.999
group = [{ match = ["*lora_B*", "lm_head.weight"], lr = 0.1, weight_decay = 0, name = "adamw" }]
[scheduler]
name = "wsd"
warmup_steps = 5
min_lr = 1e-5
decay_steps = 6
[data]
kind = "megatron"
path = ["/a b", "/c"]
source = [{ path = "/s", kind = "text", weight = 2.5, epochs = 3 }, { path = ["/t", "/u"] }]
shuffle = false
tokenizer = "/t.json"
prepared = "/prepared"
token_dtype = "uint32"
split_special_tokens = true
reset_position_ids = true
eod_token = 2
loss_on = "last"
max_length = 100
on_long = "drop"
packing = false
columns = { messages = "conversations" }
[validation]
every = 10
steps = 3
patience = 4
path = ["/v"]
set = [{ name = "code", path = "/w", kind = "text" }]
[checkpoint]
dir = "/ck"
every = 5
keep = 2
keep_every = 100
keep_best = 1
last = false
async = true
metadata_parts = 7
verify_replicas = 100
resume = "/ck/step-5"
export = "hf"
export_every = 50
[metrics]
every = 2
tensorboard = true
loggers = ["mlflow", "wandb"]
prometheus = true
trace = { start = 3, steps = 2, ranks = [0, 1], memory = true }
spike_sigma = 4.0
spike_window = 64
straggler_seconds = 5.0
[runtime]
timeout_minutes = 2.5
dump_minutes = 5.0
[cluster]
gpu = "b200"
nodes = 8
implementation = "nemo"
calibration = "/mine.toml"
hours_between_failures = 50700.0
restart_minutes = 2.5
storage_gb_per_s = 100.0
)";

const std::string kMegatron = R"(
model.path = "/m"
[strategy]
name = "megatron_fsdp"
megatron_fsdp_unit_modules = ["a", "b"]
zero_dp_strategy = "optim"
init_fsdp_with_meta_device = true
grad_reduce_in_fp32 = true
preserve_fp32_weights = true
overlap_grad_reduce = false
overlap_param_gather = false
check_for_nan_in_grad = false
report_nan_in_param_grad = true
average_in_collective = true
disable_bucketing = true
calculate_per_token_loss = true
keep_fp8_transpose_cache = true
nccl_ub = true
fsdp_double_buffer = true
activation_checkpointing = true
backend = "gloo"
fp8 = "rowwise"
)";

const std::string kDdp = R"(
model.path = "/m"
[strategy]
name = "ddp"
activation_checkpointing = "selective"
backend = "gloo"
autocast_dtype = "bfloat16"
bucket_cap_mb = 1
gradient_as_bucket_view = true
static_graph = true
broadcast_buffers = true
find_unused_parameters = true
fp8 = "tensorwise"
)";

const std::string kDistributedOptimizer = R"(
model.path = "/m"
[strategy]
name = "megatron"
zero = 2
etp_size = 2
sequence_parallel = true
params_dtype = "float16"
grad_reduce_in_fp32 = false
overlap_grad_reduce = false
overlap_param_gather = false
activation_checkpointing = "selective"
recompute_modules = ["core_attn", "moe_act"]
recompute_num_layers = 2
recompute_method = "block"
activation_offload_fraction = 0.25
backend = "nccl"
fp8 = "rowwise"
)";

}  // namespace

TEST_CASE("a plan with every key set is the same plan after writing and reading") {
  std::set<std::string> changed;
  for (const std::string& text : {kFsdp2, kMegatron, kDdp, kDistributedOptimizer}) {
    const Plan plan = load(text);
    const Plan again = load(to_toml(plan));
    CHECK(to_json(again) == to_json(plan));
    CHECK(to_toml(again) == to_toml(plan));
    CHECK(to_json(load(to_short_toml(plan))) == to_json(plan));
    const Plan defaults = default_plan(strategy_name(plan.strategy));
    for (const FieldSpec& field : fields()) {
      const bool its_own = field.strategy == strategy_name(plan.strategy);
      if ((field.strategy.empty() || its_own) && field.get(plan) != field.get(defaults)) {
        changed.insert(cat(field.strategy, "/", field.name()));
      }
    }
  }
  // Checks that the four plans differ from the defaults in all keys. A new key that no plan sets
  // fails here.
  for (const FieldSpec& field : fields()) {
    if (field.name() == "strategy.name") continue;  // the defaults above have the plan's strategy
    INFO(field.name());
    CHECK(changed.count(cat(field.strategy, "/", field.name())) == 1);
  }
}

TEST_CASE("defaults are written out and read back") {
  const Plan plan = load("model.path = \"/m\"");
  const std::string text = to_toml(plan);
  CHECK(to_json(load(text)) == to_json(plan));
  for (const FieldSpec& field : fields()) {
    if (field.strategy.empty() || field.strategy == "fsdp2") {
      CHECK(text.find("\n" + field.key + " = ") + text.find("\n# " + field.key + " is absent") !=
            2 * std::string::npos);
    }
  }
}

TEST_CASE("a short plan holds what differs from the defaults") {
  const Plan plan = load("model.path = \"/m\"\nmesh = { world_size = 8, tp_size = 1 }");
  CHECK(to_short_toml(plan) ==
        "[model]\npath = \"/m\"\n\n[mesh]\nworld_size = 8\n\n[strategy]\nname = \"fsdp2\"\n");
}

TEST_CASE("paths in a written plan are absolute, names stay") {
  Plan plan = load(R"(
model = { path = "m/../llama", weights = "auto" }
strategy = { tp_plan = "tp.toml" }
data = { kind = "text", path = ["a", "../b/*.txt"], tokenizer = "bytes", source = [{ path = "s" }] }
checkpoint = { resume = "none" }
cluster = { gpu = "h100-sxm" }
)");
  const std::string text = to_toml(plan);
  CHECK(text.find("path = \"/plans/llama\"\n") != std::string::npos);
  CHECK(text.find("weights = \"auto\"\n") != std::string::npos);
  CHECK(text.find("tp_plan = \"/plans/tp.toml\"\n") != std::string::npos);
  CHECK(text.find("path = [\"/plans/a\", \"/b/*.txt\"]\n") != std::string::npos);
  CHECK(text.find("source = [{ path = [\"/plans/s\"] }]\n") != std::string::npos);
  CHECK(text.find("tokenizer = \"bytes\"\n") != std::string::npos);
  CHECK(text.find("resume = \"none\"\n") != std::string::npos);
  CHECK(text.find("gpu = \"h100-sxm\"\n") != std::string::npos);
  CHECK(text.find("dir = \"\"\n") != std::string::npos);
  plan.file = "p.toml";
  CHECK(to_toml(plan).find("path = \"/") != std::string::npos);
}

TEST_CASE("paths in a short plan are relative to its file, and names of models stay") {
  Plan plan = load(R"(
model = { path = "m/../llama" }
data = { kind = "text", path = ["a", "/c", "../b/*.txt"], tokenizer = "bytes" }
)");
  const std::string text = to_short_toml(plan, "/plans/best/p.toml");
  CHECK(text.find("path = \"../llama\"\n") != std::string::npos);
  CHECK(text.find("path = [\"../a\", \"/c\", \"../../b/*.txt\"]\n") != std::string::npos);
  CHECK(text.find("tokenizer = \"bytes\"\n") != std::string::npos);
  CHECK(to_short_toml(plan).find("path = \"/plans/llama\"\n") != std::string::npos);
  plan.model.named = "llama-3.1-8b";
  CHECK(to_short_toml(plan, "/plans/best/p.toml").find("path = \"llama-3.1-8b\"\n") !=
        std::string::npos);
  CHECK(to_toml(plan).find("path = \"/plans/llama\"\n") != std::string::npos);
}

TEST_CASE("JSON has sections, keys in their order, and null for what is absent") {
  const Json json = to_json(load("model.path = \"m\"\ntrain.max_grad_norm = 1"));
  CHECK(json.begin().key() == "model");
  CHECK(json["model"]["path"] == "m");
  CHECK(json["strategy"]["name"] == "fsdp2");
  CHECK(json["strategy"]["backend"].is_null());
  CHECK(json["train"]["max_grad_norm"].is_number_float());
  CHECK(json["mesh"]["tp_size"] == 1);
}
