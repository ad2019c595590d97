// Imports torchtitan's job files and command-line flags. Omitted settings get torchtitan's
// defaults, not those of a plan.
#include <algorithm>
#include <cmath>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/optimizers.h"
#include "am/frameworks/torchtitan/config.h"
#include "am/frameworks/words.h"

namespace am::frameworks {
namespace {

void read_parallelism(PlanBuilder& builder) {
  Source& source = builder.source();
  const auto axis = [&](const char* key) -> PlanBuilder::Axis {
    return {source.size(key, 1), key};
  };
  PlanBuilder::Axes axes = {.dp_replicate = axis("parallelism.data_parallel_replicate_degree"),
                            .dp_shard = {0, "parallelism"},
                            .tp = axis("parallelism.tensor_parallel_degree"),
                            .pp = axis("parallelism.pipeline_parallel_degree"),
                            .cp = axis("parallelism.context_parallel_degree"),
                            .ep = axis("parallelism.expert_parallel_degree")};
  constexpr const char* kShard = "parallelism.data_parallel_shard_degree";
  if (source.integer(kShard).value_or(-1) != -1) axes.dp_shard = axis(kShard);
  builder.set_mesh(axes);
  const int64_t tp = axes.tp.size;
  const int64_t pp = axes.pp.size;
  if (tp > 1) {
    builder.set("strategy.sequence_parallel",
                source.boolean("parallelism.enable_sequence_parallel").value_or(true));
  }
  for (const char* key :
       {"parallelism.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel",
        "experimental.enable_async_tensor_parallel"}) {
    if (source.boolean(key).value_or(false)) {
      builder.set("strategy.enable_async_tensor_parallel", true, key);
    }
  }
  constexpr const char* kReshard = "parallelism.fsdp_reshard_after_forward";
  const std::string reshard = source.text(kReshard).value_or("default");
  if (reshard == "always") builder.set("strategy.reshard_after_forward", true, kReshard);
  if (reshard == "never" || (reshard == "default" && pp > 1)) {
    builder.set("strategy.reshard_after_forward", false, kReshard);
  }
  if (pp == 1) return;
  const PipelineKeys keys = {
      .schedule = "parallelism.pipeline_parallel_schedule",
      .file = "parallelism.pipeline_parallel_schedule_csv",
      .absent = "1F1B",
      .known =
          "1F1B, GPipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, ZBVZeroBubble or "
          "DualPipeV",
      .modules = "parallelism.module_fqns_per_model_part",
      .layers_per_stage = "parallelism.pipeline_parallel_layers_per_stage",
      .first_less =
          source.integer("parallelism.pipeline_parallel_first_stage_less_layers", 0).value_or(1),
      .last_less =
          source.integer("parallelism.pipeline_parallel_last_stage_less_layers", 0).value_or(1)};
  set_pipeline(builder, keys, pp);
}

// The batch of one data-parallel rank, in sequences. In torchtitan's newest flags, batches are
// numbers of tokens, which local_batch() converts to numbers of sequences.
struct LocalBatch {
  const char* key;  // the setting to which errors point
  // Number of sequences in one run of the pipeline's schedule. Without a pipeline, number of
  // sequences in a micro-batch.
  int64_t local = 8;
  int64_t micro = 1;  // number of sequences in a micro-batch; used only with a pipeline
};
bool counts_tokens(const Source& source) {
  return source.has_any({"training.max_context_length", "training.num_tokens_per_train_step",
                         "training.num_tokens_per_microbatch_per_dp_rank"});
}
LocalBatch local_batch(PlanBuilder& builder) {
  Source& source = builder.source();
  constexpr const char* kTokens = "training.num_tokens_per_microbatch_per_dp_rank";
  constexpr const char* kRounds = "parallelism.num_pp_microbatches";
  LocalBatch out{.key = "training.local_batch_size"};
  if (counts_tokens(source)) {
    builder.set("train.seq_len", source.integer("training.max_context_length", 1).value_or(2048),
                "training.max_context_length");
    const int64_t each = source.integer(kTokens, 1).value_or(16384);
    out.key = kTokens;
    out.micro = each / std::max<int64_t>(1, builder.plan().train.seq_len);
    if (out.micro * builder.plan().train.seq_len != each) {
      source.refuse(
          kTokens,
          cat(each, " tokens cannot be divided into sequences of ", builder.plan().train.seq_len),
          "give a multiple of max_context_length");
      out.micro = 1;
    }
    out.local = saturating_product({out.micro, source.integer(kRounds, 1).value_or(1)});
    return out;
  }
  // In torchtitan's versions of 2024 the key is named batch_size.
  if (!source.has(out.key) && source.has("training.batch_size")) out.key = "training.batch_size";
  out.local = source.integer(out.key, 1).value_or(8);
  out.micro = source.integer("parallelism.pipeline_parallel_microbatch_size", 1).value_or(1);
  if (source.has(kRounds)) out.micro = out.local / source.integer(kRounds, 1).value_or(1);
  return out;
}

void read_training(PlanBuilder& builder) {
  Source& source = builder.source();
  const int64_t pp = builder.plan().mesh.pp_size;
  const bool by_tokens = counts_tokens(source);
  if (!by_tokens) read_keys(kTorchtitanKeys, "training.seq_len", builder);
  const LocalBatch batch = local_batch(builder);
  const int64_t local = batch.local;
  set_batches(builder, local, batch.micro, pp, batch.key);
  const char* kGlobal =
      by_tokens ? "training.num_tokens_per_train_step" : "training.global_batch_size";
  int64_t global = source.integer(kGlobal).value_or(-1);
  if (by_tokens && global > 0) global /= std::max<int64_t>(1, builder.plan().train.seq_len);
  if (global >= 0) {
    builder.set("train.global_batch_size", global, kGlobal);
  } else if (pp > 1 && builder.plan().mesh.dp_size > 0) {
    builder.set("train.global_batch_size", saturating_product({local, builder.plan().mesh.dp_size}),
                batch.key);
  } else if (pp > 1) {
    builder.note(cat("torchtitan's global batch is the local batch of ", local,
                     " sequences times the number of data-parallel ranks, which the launcher "
                     "determines: add global_batch_size to [train]"));
  }
  read_keys(kTorchtitanKeys, "training.steps", builder);
  read_keys(kTorchtitanKeys, "training.max_norm", builder);
  builder.copy("training.dtype", "model.dtype");
  builder.copy("training.seed", "model.seed");  // the key in versions up to 0.2.1
  builder.copy("debug.seed", "model.seed");
  if (source.boolean("training.enable_cpu_offload").value_or(false)) {
    builder.set_offload(true, "training.enable_cpu_offload");
  }
  read_keys(kTorchtitanKeys, "compile.", builder);
  if (source.boolean("training.compile").value_or(false)) {  // the key in versions of 2024
    builder.set("strategy.enable_compile", true, "training.compile");
  }
}

// Reads the dtypes. `under_autocast`: the job file has data-parallel replicas, but no shards and no
// tp, pp or cp. torchtitan up to 0.2 trains this job with DDP under autocast, and the weights keep
// the dtype in which they are stored.
void read_precision(PlanBuilder& builder, bool under_autocast) {
  Source& source = builder.source();
  constexpr const char* kParam = "training.mixed_precision_param";
  const std::string param = source.text(kParam).value_or("bfloat16");
  const std::string reduce = source.text("training.mixed_precision_reduce").value_or("float32");
  if (!under_autocast) return builder.set_mp_policy(param, reduce, "none", kParam);
  builder.set_mp_policy("none", reduce, "none", kParam);
  if (param != "float32") builder.set("strategy.autocast_dtype", param, kParam);
  builder.note(
      "torchtitan up to 0.2 runs replicas without shards as DDP under autocast, so the plan has "
      "fsdp2 with unsharded parameters and autocast_dtype; for torchtitan 0.3, set mp_policy "
      "instead");
}

void read_checkpointing(PlanBuilder& builder) {
  Source& source = builder.source();
  // Key under which read_flags() stores a subcommand. For the word "activation_checkpoint:full",
  // the value is "full".
  constexpr const char* kChoice = "activation_checkpoint:";
  const char* key = source.has(kChoice) ? kChoice : "activation_checkpoint.mode";
  const std::string mode = source.text(key).value_or("selective");
  constexpr const char* kOption = "activation_checkpoint.selective_ac_option";
  const std::string option = source.text(kOption).value_or("op");
  const std::optional<int64_t> every = mode == "selective" ? parse_integer(option) : std::nullopt;
  if (mode != "none" && mode != "full" && mode != "selective") {
    source.refuse(key, cat("unknown activation checkpointing \"", mode, "\""),
                  "legal values: none, full or selective");
  } else if (mode == "none") {
    builder.set("strategy.activation_checkpointing", mode != "none", key);
  } else if (every && *every >= 1) {
    builder.set("strategy.activation_checkpointing", "full", key);
    builder.set("strategy.activation_checkpointing_every", *every, kOption);
  } else {
    builder.set("strategy.activation_checkpointing", mode, key);
  }
}

void read_optimizer(PlanBuilder& builder) {
  Source& source = builder.source();
  read_torch_optimizer(builder, "optimizer.name", "optimizer.");
  read_keys(kTorchtitanKeys, "optimizer.", builder);
  builder.set_betas(source.number("optimizer.beta1").value_or(0.9),
                    source.number("optimizer.beta2").value_or(0.95), "optimizer.beta1");
}

void read_scheduler(PlanBuilder& builder) {
  Source& source = builder.source();
  read_keys(kTorchtitanKeys, "lr_scheduler.", builder);
  constexpr const char* kOld = "training.warmup_steps";  // the key in versions of 2024
  if (!source.has("lr_scheduler.warmup_steps")) builder.copy(kOld, "scheduler.warmup_steps");
  const int64_t steps = builder.plan().train.max_steps;
  // Limits the warm-up to the length of the job, and the decay to the steps after the warm-up, as
  // torchtitan does.
  const int64_t warmup = std::min(builder.plan().scheduler.warmup_steps, steps);
  builder.set("scheduler.warmup_steps", warmup, "lr_scheduler.warmup_steps");
  const int64_t total = source.integer("lr_scheduler.total_steps", 0).value_or(steps);
  const auto ratio = source.number("lr_scheduler.decay_ratio");
  std::string type = source.text("lr_scheduler.decay_type").value_or("linear");
  const char* floor = source.has("lr_scheduler.lr_min")
                          ? "lr_scheduler.lr_min"  // the key in version 0.1
                          : "lr_scheduler.min_lr_factor";
  const double least = source.number(floor).value_or(0.0);
  if (ratio.has_value() && *ratio <= 0.0) return;  // no decay: the learning rate stays constant
  if (type != "linear" && type != "cosine") {
    builder.note(
        cat("plans do not support the decay \"", type, "\": the plan has linear decay instead"));
    type = "linear";
  }
  const bool wsd = ratio.has_value() && *ratio < 1.0;
  builder.set("scheduler.name", wsd ? std::string("wsd") : type, "lr_scheduler.decay_type");
  builder.set("scheduler.min_lr", builder.plan().optimizer.lr * least, floor);
  if (wsd) {
    const auto decay = static_cast<int64_t>(std::llround(*ratio * static_cast<double>(total)));
    builder.set("scheduler.decay_steps", std::min(decay, steps - warmup),
                "lr_scheduler.decay_ratio");
  } else if (total != steps) {
    builder.set("scheduler.decay_steps", total, "lr_scheduler.total_steps");
  }
}

// Sets the plan's key `ours` to the path of the data set in a section of the job file, for example
// "training.". Returns false if the section contains no local path, for example because it names a
// data set on the hub.
bool read_data_path(PlanBuilder& builder, const std::string& section, const char* ours) {
  const std::string path = section + "dataset_path";
  if (!is_local_data(builder.source().text(path).value_or(""))) return false;
  builder.copy(path, ours);
  builder.source().skip(section + "dataset");
  return true;
}

void read_data(PlanBuilder& builder) {
  Source& source = builder.source();
  const bool local = read_data_path(builder, "training.", "data.path");
  if (local) {
    builder.set("data.kind", "text", "training.dataset_path");
  } else if (const auto name = source.text("training.dataset")) {
    builder.note(cat("a plan cannot read the data set ", *name,
                     " of the hub: the plan uses synthetic data"));
  }
  if (!source.boolean("validation.enable").value_or(false)) return;
  if (local && !read_data_path(builder, "validation.", "validation.path")) {
    return builder.note(
        "a plan cannot read validation data of the hub: the plan has no validation");
  }
  builder.set("validation.every", source.integer("validation.freq", 1).value_or(10),
              "validation.freq");
  const int64_t steps = source.integer("validation.steps").value_or(-1);
  if (steps > 0) {
    builder.set("validation.steps", steps, "validation.steps");
  } else if (local) {
    builder.set("validation.steps", int64_t{0}, "validation.steps");
  } else {
    builder.note(cat("synthetic data have no end: each validation takes ",
                     builder.plan().validation.steps, " batches"));
  }
}

void read_rest(PlanBuilder& builder) {
  Source& source = builder.source();
  read_keys(kTorchtitanKeys, "checkpoint.", builder);
  const int64_t interval = source.integer("checkpoint.interval", 1).value_or(500);
  // Version 0.1 has the key enable_checkpoint instead of enable.
  const bool saves = source.boolean("checkpoint.enable").value_or(false) ||
                     source.boolean("checkpoint.enable_checkpoint").value_or(false);
  if (saves && interval < builder.plan().train.max_steps) {
    builder.set("checkpoint.every", interval, "checkpoint.interval");
  }
  if (saves) {
    builder.set("checkpoint.keep", source.integer("checkpoint.keep_latest_k").value_or(10),
                "checkpoint.keep_latest_k");
  }
  if (source.text("checkpoint.async_mode").value_or("disabled") != "disabled") {
    builder.set("checkpoint.async", true, "checkpoint.async_mode");
  }
  if (source.boolean("checkpoint.last_save_in_hf").value_or(false)) {
    builder.set("checkpoint.export", "hf", "checkpoint.last_save_in_hf");
  }
  read_keys(kTorchtitanKeys, "metrics.", builder);
  for (const char* key : {"model.hf_assets_path", "hf_assets_path"}) {
    builder.copy(key, "model.path");
  }
}

// Whether the text is a command line instead of a job file: a line before the first section header,
// for example "[training]", contains a flag.
bool has_flags(std::string_view text) {
  for (const std::string& line : split(std::string(text), '\n')) {
    const std::string_view begin = trim(line);
    if (starts_with(begin, "[")) return false;
    if (starts_with(begin, "--") || begin.find(" --") != std::string_view::npos) return true;
  }
  return false;
}

// Replaces each flag "--section.no_key" by `key = false`. In torchtitan 0.3, this flag sets the
// boolean setting section.key to false.
void settle_flags(config::Value& root) {
  for (config::Member& section : root.members) {
    for (config::Member& member : section.value.members) {
      if (!starts_with(member.key, "no_")) continue;
      member.key = member.key.substr(3);
      member.value.kind = config::Value::Kind::kBoolean;
      member.value.boolean = false;
    }
  }
}

}  // namespace

std::optional<Imported> read_torchtitan(const ImportInput& input) {
  const bool flags = has_flags(input.text);
  auto root = flags ? read_flags(input.text, input.file, {.dash = '_', .nested = true}, input.found)
                    : config::read_toml(input.text, input.file, input.found);
  if (!root.has_value()) return std::nullopt;
  if (flags) settle_flags(*root);
  Source source(std::move(*root), input.file, input.found);
  if (!source.has_any({"parallelism", "training", "job"})) {
    source.refuse_framework("torchtitan", "[parallelism], [training] and [job]");
    return std::nullopt;
  }
  const bool replicas = source.size("parallelism.data_parallel_replicate_degree", 1) > 1;
  const auto shard = source.integer("parallelism.data_parallel_shard_degree");
  const bool alone = source.size("parallelism.tensor_parallel_degree", 1) == 1 &&
                     source.size("parallelism.pipeline_parallel_degree", 1) == 1 &&
                     source.size("parallelism.context_parallel_degree", 1) == 1;
  PlanBuilder builder(source, "fsdp2", input.model);
  for (const char* key : {"model.name", "model.flavor", "module", "config"}) {
    builder.name_model(key);
  }
  read_parallelism(builder);
  read_training(builder);
  read_precision(builder, !flags && replicas && shard == 1 && alone);
  read_checkpointing(builder);
  if (!flags) read_optimizer(builder);
  read_scheduler(builder);
  read_data(builder);
  read_rest(builder);
  return builder.done(source.ignored("a plan has no key for it"));
}

}  // namespace am::frameworks
