#include "am/frameworks/losses.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "am/base/text.h"

namespace am::frameworks {
namespace {

// The values with which a setting counts as switched off.
enum class Off {
  kUsual,   // false, none, 0 and similar values
  kDegree,  // degrees of parallelism: false, none, 0 and similar values, 1 and -1
};

// A kind of setting that changes the job. `pattern`: a glob that is matched with the last component
// of a key or, if the glob contains a dot, with the complete key. `what`: the aspect of the job
// that the setting changes.
struct Loss {
  std::string_view pattern;
  Off off;
  std::string_view what;
};

constexpr std::string_view kLayout = "the layout";
constexpr std::string_view kEightBits = "the precision of matrix products (8 or 4 bits)";
constexpr std::string_view kHost = "where state is kept (on the host or on disk)";

constexpr std::string_view kBatch = "the batch";
constexpr std::string_view kOptimizer = "the optimizer and its states";
constexpr std::string_view kKept = "which tensors are saved for backward";
constexpr std::string_view kModel = "the model that is trained";

// Globs for complete keys that do not describe training, for example keys of launchers, loggers,
// benchmarks and validation.
constexpr std::array<std::string_view, 23> kElsewhere = {
    "ci.*",          "wandb*",       "mlflow*",
    "comet*",        "tensorboard*", "slurm*",
    "k8s.*",         "skypilot.*",   "launcher*",
    "benchmark.*",   "profiling.*",  "comm.*",
    "csv_monitor.*", "autotuning.*", "rng.*",
    "validation*",   "_validation*", "inference*",
    "*dequantiz*",   "rl_*",         "flops_profiler.*",
    "eval_*",        "output.*"};

constexpr std::array<Loss, 69> kLosses = {{
    {"*parallel*degree*", Off::kDegree, kLayout},
    {"*parallel*size*", Off::kDegree, kLayout},
    {"*parallel_layout", Off::kDegree, kLayout},
    {"*parallel*layers_per_stage", Off::kUsual, kLayout},
    {"*pipeline*num_layers", Off::kUsual, kLayout},
    {"*pipeline*split*", Off::kUsual, kLayout},
    {"*pipeline.stages", Off::kDegree, kLayout},
    {"*num_weight_shards", Off::kDegree, kLayout},
    {"*remat_size", Off::kDegree, kLayout},
    {"*dp_sharding_strategy", Off::kUsual, kLayout},
    {"*fault_tolerance.enable", Off::kUsual, kLayout},
    {"*virtual_pipeline*", Off::kDegree, kLayout},
    {"sequence_parallel", Off::kUsual, kLayout},
    {"*tp_pp_dp*", Off::kUsual, kLayout},
    {"*mics_shard_size", Off::kUsual, kLayout},
    {"num_distributed_optimizer_instances", Off::kDegree, kLayout},
    {"?p_size", Off::kDegree, kLayout},
    {"*float8*", Off::kUsual, kEightBits},
    {"*fp8*", Off::kUsual, kEightBits},
    {"*fp4*", Off::kUsual, kEightBits},
    {"*mxfp*", Off::kUsual, kEightBits},
    {"*{fp8,float8,fp4,mxfp8}*.enabled", Off::kUsual, kEightBits},
    {"*fp8.recipe", Off::kUsual, kEightBits},
    {"*converters", Off::kUsual, "how matrix products are computed"},
    {"*quantiz*", Off::kUsual, "how values are quantized"},
    {"*qat.enabled", Off::kUsual, "how values are quantized"},
    {"*compression_training.*enabled", Off::kUsual, "how values are quantized"},
    {"*load_in_?bit", Off::kUsual, "how values are quantized"},
    {"*autocast*.enabled", Off::kUsual, "the precision"},
    {"autocast_dtype", Off::kUsual, "the precision"},
    {"*amp.enabled", Off::kUsual, "the precision"},
    {"*moe.mp_policy.*_dtype", Off::kUsual, "the precision of experts"},
    {"lm_head_precision", Off::kUsual, "the precision of the head"},
    {"*grad_accum_dtype", Off::kUsual, "the precision of gradients"},
    {"*local_accumulation", Off::kUsual, "the precision of gradients"},
    {"*offload*.device", Off::kUsual, kHost},
    {"*offload*_device", Off::kUsual, kHost},
    {"*offload", Off::kUsual, kHost},
    {"*offload_params", Off::kUsual, kHost},
    {"*offloading", Off::kUsual, kHost},
    {"*cpu_checkpointing", Off::kUsual, kHost},
    {"*offload.enabled", Off::kUsual, kHost},
    {"*partition_activations", Off::kUsual, kKept},
    {"distribute_saved_activations", Off::kUsual, kKept},
    {"*optimizer_state*dtype", Off::kUsual, "the precision of the optimizer's state"},
    {"*optimizer_states", Off::kUsual, "the precision of the optimizer's state"},
    {"*master_weights_and_grad*", Off::kUsual, "the precision of the optimizer's state"},
    {"early_step_in_backward", Off::kUsual, kOptimizer},
    {"*muon*.enabled", Off::kUsual, kOptimizer},
    {"use_layer_wise_distributed_optimizer", Off::kUsual, kOptimizer},
    {"ema.decay", Off::kUsual, "the moving average of the weights"},
    {"*gra*_accumulation_steps", Off::kDegree, kBatch},
    {"rampup_batch_size", Off::kUsual, kBatch},
    {"step_batch_size_schedule", Off::kUsual, kBatch},
    {"decrease_batch_size_if_needed", Off::kUsual, kBatch},
    {"*elasticity.enabled", Off::kUsual, kBatch},
    {"*curriculum*enabled", Off::kUsual, kBatch},
    {"mtp_num_layers", Off::kUsual, kModel},
    {"*num_nextn_predict_layers", Off::kUsual, kModel},
    {"*expert_capacity_factor", Off::kUsual, "which tokens the experts process"},
    {"*progressive_layer_drop.enabled", Off::kUsual, kModel},
    {"*sparse_attention.mode", Off::kUsual, kModel},
    {"*teacher_model.{_target_,pretrained_model_name_or_path}", Off::kUsual,
     "the loss, which a teacher model changes"},
    {"*recipe_args.target_model_name_or_path", Off::kUsual, kModel},
    {"*dllm.mode", Off::kUsual, "the training objective"},
    {"*freeze_config.freeze_language_model", Off::kUsual, "which parameters are trained"},
    {"*peft.moe_rank_scaling", Off::kUsual, "the adapters of experts"},
    {"*peft.{_target_,dim,r}", Off::kUsual,
     "which parameters are trained: without adapters the plan trains the whole model"},
    {"*peft.use_dora", Off::kUsual, "the adapters"},
}};

// Returns a key in lower case, without leading dashes and with `_` instead of `-`. For example,
// both "--use-fp8" and "use_fp8" become "use_fp8".
std::string folded(std::string_view key) {
  std::string out;
  key.remove_prefix(std::min(key.find_first_not_of('-'), key.size()));
  for (const char c : key) {
    out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool is_off(const Json& value, Off off) {
  if (value.is_null() || value == false) return true;
  if (value.is_structured()) return value.empty();
  if (value.is_number()) {
    const double size = std::abs(value.get<double>());
    return size == 0.0 || (off == Off::kDegree && size == 1.0);
  }
  if (!value.is_string()) return false;
  static constexpr std::array<std::string_view, 8> kWords = {
      "", "none", "no", "off", "null", "disabled", "default", "no_shard"};
  const std::string word = folded(value.get<std::string>());
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value) {
  const std::string whole = folded(key);
  for (const std::string_view section : kElsewhere) {
    if (glob_match(section, whole)) return std::nullopt;
  }
  const std::string leaf = whole.substr(whole.rfind('.') + 1);
  for (const Loss& loss : kLosses) {
    const bool by_path = loss.pattern.find('.') != std::string_view::npos;
    if (glob_match(loss.pattern, by_path ? whole : leaf) && !is_off(value, loss.off)) {
      return loss.what;
    }
  }
  return std::nullopt;
}

}  // namespace am::frameworks
