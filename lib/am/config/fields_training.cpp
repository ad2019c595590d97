// Defines the keys of the plan file's sections [pipeline], [context], [experts], [train],
// [optimizer], [scheduler], [data], [validation], [checkpoint], [metrics], [runtime] and [cluster].
#include "am/config/field_builder.h"
#include "am/config/schedule_names.h"
#include "am/config/strategy_codec.h"
#include "am/config/table_codec.h"

namespace am::config {
namespace {

void add_pipeline(std::vector<FieldSpec>& out) {
  FieldBuilder pipeline(
      "pipeline", [](auto& plan) -> auto& { return plan.pipeline; }, out);
  using S = PipelineSection;
  pipeline
      .add("schedule", &S::schedule,
           Choice{{kScheduleNames.begin(), kScheduleNames.end()}, {}, ".csv"},
           "Pipeline schedule: its name, or a CSV file with one line per rank, in the format of "
           "PyTorch and of am-plan schedule --csv.")
      .is_path = is_schedule_file;
  pipeline.add("microbatches", &S::microbatches, Integer{0, 1 << 20},
               "Micro-batches in one run of the schedule. 0: as many as there are stages.");
  pipeline.add("virtual_stages", &S::virtual_stages, Integer{1, 1 << 10}, "Stages per rank.");
  pipeline.add("split_points", &S::split_points, Integers{Integer{1, 1 << 20}},
               "First layer of each stage after the first. Empty: layers are distributed according "
               "to balance.");
  pipeline.add("balance", &S::balance, Choice{{"layers", "cost"}},
               "What is balanced over the stages without split_points. layers: the number of "
               "layers; cost: the operations of a forward pass, including the head's, so that the "
               "last stage has fewer layers.");
}

void add_context(std::vector<FieldSpec>& out) {
  FieldBuilder context(
      "context", [](auto& plan) -> auto& { return plan.context; }, out);
  context
      .add("method", &ContextSection::method, Choice{{"ring", "all_gather", "ulysses"}},
           "How attention sees the whole sequence. ring: keys and values are passed from rank to "
           "rank; all_gather: each rank gathers all keys and values; ulysses: an all-to-all gives "
           "each rank the whole sequence for some of the heads.")
      .also = {"context_parallel_rotate_method", "cp_comm_type"};
}

void add_experts(std::vector<FieldSpec>& out) {
  FieldBuilder experts(
      "experts", [](auto& plan) -> auto& { return plan.experts; }, out);
  using S = ExpertsSection;
  experts.add("balancing", &S::balancing, Choice{{"none", "bias", "sequence"}},
              "bias: after a step the router's correction bias (DeepSeek-V3) falls by `rate` for "
              "experts with more tokens of the global batch than the mean, and rises for the "
              "others; sequence: an auxiliary loss of each sequence, which is not part of the "
              "reported loss. Neither depends on the layout.");
  experts
      .add("rate", &S::rate, Number{}, "Amount by which a step raises or lowers a correction bias.")
      .also = {"bias_update_speed", "gate_bias_update_factor", "moe_router_bias_update_rate"};
  experts
      .add("coefficient", &S::coefficient, Number{},
           "Factor of the auxiliary loss, which is, per layer and sequence, the sum over experts "
           "of the expert's share of choices times its mean score.")
      .also = {"aux_loss_alpha", "router_aux_loss_coef", "moe_aux_loss_coeff"};
}

void add_train(std::vector<FieldSpec>& out) {
  FieldBuilder train(
      "train", [](auto& plan) -> auto& { return plan.train; }, out);
  using S = TrainSection;
  train.add("seq_len", &S::seq_len, Integer{1, 1 << 27}, "Tokens per sequence.").also = {
      "seq_length", "sequence_length", "max_seq_len"};
  train
      .add("micro_batch_size", &S::micro_batch_size, Integer{1, 1 << 20},
           "Sequences per rank in one micro-batch.")
      .also = {"local_batch_size", "batch_size"};
  train.add("global_batch_size", &S::global_batch_size, Integer{0, 1 << 30},
            "Sequences per optimizer step, over all ranks. 0: the value of the resumed checkpoint; "
            "in a new run one micro-batch per data parallel rank, or with a pipeline "
            "pipeline.microbatches of them.");
  train.add("max_steps", &S::max_steps, Integer{0, int64_t{1} << 40}, "Optimizer steps of the job.")
      .also = {"steps", "train_iters", "num_steps"};
  train
      .add("epochs", &S::epochs, Integer{0, 1 << 20},
           "Passes through the data, after which the job ends; the last step may have fewer "
           "samples. 0: no limit. Without max_steps in the plan, epochs alone decides.")
      .also = {"num_epochs", "num_train_epochs"};
  train.add("max_tokens", &S::max_tokens, Integer{0, int64_t{1} << 53},
            "The job ends before the step whose tokens would exceed this number. 0: no limit. "
            "Without max_steps in the plan, max_tokens decides.");
  train
      .add("max_time", &S::max_time, Optional<Duration>{},
           "The job saves and stops once this time has passed since it was started, restarts "
           "included, for example \"23h30m\"; am-run then ends with --stopped-status.")
      .also = {"time_limit", "max_duration"};
  train
      .add("max_grad_norm", &S::max_grad_norm, Number{},
           "Gradients are scaled down to this global norm. 0: no clipping.")
      .also = {"clip_grad", "max_norm", "gradient_clipping"};
  train
      .add("label_smoothing", &S::label_smoothing, Number{0.0, 1.0},
           "Share of each label that is divided equally among all tokens of the vocabulary. "
           "Gradients contain it; the reported loss is the cross-entropy without it.")
      .also = {"label_smoothing_factor"};
  train
      .add("z_loss", &S::z_loss, Number{},
           "Factor of the z-loss: the mean, over the labels, of the squared logarithm of the "
           "logits' sum of exponentials. Gradients contain it; the reported loss does not.")
      .also = {"z_loss_multiplier", "z_loss_weight", "z_loss_coefficient"};
  train
      .add("neftune_noise_alpha", &S::neftune_noise_alpha, Number{},
           "NEFTune: training adds uniform noise in +-alpha / sqrt(seq_len * hidden_size) to the "
           "embeddings of tokens. The noise does not depend on the layout. 0: no noise.")
      .also = {"neftune_alpha", "noise_alpha"};
  train.add(
      "on_nonfinite", &S::on_nonfinite, Choice{{"stop", "skip", "continue"}},
      "What happens at a step whose loss or gradient norm is not finite. stop: the job fails and "
      "keeps its last checkpoint; skip: parameters and moments stay as they are; continue: update "
      "nevertheless, but save no checkpoint with values that are not finite.");
  train
      .add("loss_scale", &S::loss_scale, Number{},
           "Factor by which the loss is multiplied before backward when computation or reduction "
           "is in float16. 0: dynamic, from 65536: halved, with the step skipped, when a gradient "
           "overflows; doubled after 2000 steps without overflow.")
      .also = {"initial_loss_scale"};
  train.add("seed", &S::seed, Integer{0}, "Seed of the data order.");
  train.add("deterministic", &S::deterministic, Boolean{},
            "Use only deterministic kernels on GPUs (PyTorch's use_deterministic_algorithms), so "
            "that jobs repeat and resume bit for bit. On CPUs they always do.");
  train.add("matmul_precision", &S::matmul_precision, Choice{{"highest", "high"}},
            "Matrix products of float32 tensors on a GPU (PyTorch's set_float32_matmul_precision). "
            "highest: float32; high: TF32, with 10 bits of mantissa, several times as fast.");
}

void add_optimizer(std::vector<FieldSpec>& out) {
  FieldBuilder optimizer(
      "optimizer", [](auto& plan) -> auto& { return plan.optimizer; }, out);
  using S = OptimizerSection;
  optimizer.add(
      "name", &S::name, Choice{{"adamw", "adam", "sgd", "muon"}},
      "Optimizer, with PyTorch's update rules. adamw: decoupled weight decay; adam: weight decay "
      "added to the gradient; sgd: with momentum if it is given; muon: orthogonalised momentum for "
      "the matrices of the decoder layers, adamw for all other parameters.");
  optimizer.add("lr", &S::lr, Number{}, "Peak learning rate.").also = {"learning_rate"};
  optimizer.add("betas", &S::betas, NumberPair{Number{0.0, 1.0}},
                "Decay rates of the two moments of adamw and adam.");
  optimizer.add("eps", &S::eps, Number{}, "Added to the denominator of adamw and adam.");
  optimizer.add("weight_decay", &S::weight_decay, Number{}, "Weight decay.");
  optimizer.add("no_decay", &S::no_decay, Texts{},
                "Parameters without weight decay, as globs over their names, in which * also "
                "matches dots. [\"*.bias\", \"*norm*\"]: biases and norms.");
  optimizer.add("momentum", &S::momentum, Optional<Number>{Number{0.0, 1.0}},
                "Momentum of sgd and muon. Absent: 0 for sgd, 0.95 for muon.");
  optimizer.add("nesterov", &S::nesterov, Optional<Boolean>{},
                "Nesterov's momentum, for sgd and muon. Absent: false for sgd, true for muon.");
  optimizer.add("adjust_lr", &S::adjust_lr, Choice{{"original", "match_rms_adamw"}},
                "Factor of muon's learning rate for an A x B matrix. original: sqrt(max(1, A / "
                "B)); match_rms_adamw: 0.2 sqrt(max(A, B)), for a learning rate and a decay that "
                "suit adamw.");
  optimizer
      .add("ema_decay", &S::ema_decay, Number{0.0, 1.0},
           "Decay of the moving average of the parameters, a state of the optimizer: average <- "
           "decay * average + (1 - decay) * parameter after each step. Validation and exports use "
           "the average. 0: no average.")
      .also = {"ema", "ema_alpha"};
  Tables<OptimizerGroup> groups;
  groups.add("match", &OptimizerGroup::match, Texts{},
             "Globs over the names of parameters, in which * also matches dots.",
             /*required=*/true);
  groups.add("lr", &OptimizerGroup::lr, Optional<Number>{},
             "Peak learning rate, which follows the schedule in proportion.");
  groups.add("weight_decay", &OptimizerGroup::weight_decay, Optional<Number>{}, "Weight decay.");
  groups.add("name", &OptimizerGroup::name, Optional<Choice>{Choice{{"adamw"}}},
             "adamw: with name = \"muon\", AdamW updates these parameters.");
  optimizer
      .add("group", &S::groups, groups,
           "Parameters with options of their own, as [[optimizer.group]]. The first group that "
           "matches a parameter applies, before no_decay.")
      .also = {"groups", "param_groups", "lr_groups"};

  FieldBuilder scheduler(
      "scheduler", [](auto& plan) -> auto& { return plan.scheduler; }, out);
  using C = SchedulerSection;
  const Integer steps{0, int64_t{1} << 40};
  scheduler.add("name", &C::name, Choice{{"constant", "cosine", "linear", "wsd"}},
                "Learning-rate schedule after the warm-up; wsd: constant, then a final decay.");
  scheduler.add("warmup_steps", &C::warmup_steps, steps, "Steps of the linear rise from 0 to lr.")
      .also = {"lr_warmup_steps", "lr_warmup_iters"};
  scheduler.add("min_lr", &C::min_lr, Number{}, "Learning rate at the end of the decay.");
  scheduler.add("decay_steps", &C::decay_steps, steps,
                "cosine, linear: the step that reaches min_lr (0: max_steps); wsd: length of the "
                "final decay.");
}

// Codec of data.columns, for example { messages = "conversations" }.
struct ColumnsCodec {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  static const std::vector<std::string>& keys() {
    static const std::vector<std::string> all = {"messages",   "tools",     "prompt",
                                                 "completion", "input_ids", "labels"};
    return all;
  }
  std::optional<Pairs> read(const Input& input) const {
    auto pairs = input.value.is_table() ? read_text_table(input) : std::nullopt;
    if (!input.value.is_table()) input.wrong_type("a table", "{ messages = \"conversations\" }");
    for (const auto& [key, name] : pairs.value_or(Pairs{})) {
      if (std::find(keys().begin(), keys().end(), key) != keys().end()) continue;
      input.out_of_range(cat(" has the key \"", key, "\""), cat("legal: ", join(keys(), ", ")));
      return std::nullopt;
    }
    return pairs;
  }
  Json write(const Pairs& pairs) const {
    Json table = Json::object();
    for (const auto& [key, name] : pairs) table[key] = name;
    return table;
  }
  Json schema() const {
    Json properties = Json::object();
    for (const std::string& key : keys()) properties[key] = {{"type", "string"}};
    return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  }
  std::string type() const { return "table of key = name"; }
};

void add_data(std::vector<FieldSpec>& out) {
  FieldBuilder data(
      "data", [](auto& plan) -> auto& { return plan.data; }, out);
  using S = DataSection;
  const Choice kinds{{"synthetic", "text", "tokens", "megatron", "chat", "synthetic_chat"}};
  data.add("kind", &S::kind, kinds,
           "synthetic needs no files; chat: conversations as JSON Lines or Parquet, with the chat "
           "template of the tokenizer's folder; synthetic_chat: random examples, for tests; text: "
           "UTF-8 files, or .jsonl or Parquet with a \"text\" in each row, through the tokenizer; "
           "tokens: headerless little-endian integers; megatron: a .bin and .idx pair.");
  data.add("path", &S::path, Texts{"path or array of paths"},
           "Files, folders or globs. Required unless kind is synthetic, or there are sources. With "
           "kind megatron also Megatron's blend, which becomes sources: weights and prefixes in "
           "turn, or a .json file with such a list.")
      .is_path = is_any_path;
  Tables<DataSourceSection> sources;
  using Source = DataSourceSection;
  sources.add("path", &Source::path, Texts{"path or array of paths"}, "Files, folders or globs.",
              /*required=*/true);
  Choice kinds_of_files = kinds;
  std::erase_if(kinds_of_files.names,
                [](const std::string& kind) { return starts_with(kind, "synthetic"); });
  sources.add("kind", &Source::kind, Optional<Choice>{kinds_of_files},
              "Kind of the files. Absent: data.kind.");
  sources.add("weight", &Source::weight, Number{0.0, 1e100},
              "Share of the samples, relative to the weights of the other sources.");
  sources.add("epochs", &Source::epochs, Integer{0, 1 << 20},
              "Passes through the source, after which the other sources go on without it. 0: no "
              "limit.");
  data.add("source", &S::sources, sources,
           "A mixture of sources, as [[data.source]], instead of path. The order depends on the "
           "weights and on train.seed alone.")
      .is_path = is_any_path;
  data.add("shuffle", &S::shuffle, Boolean{},
           "Shuffle the samples of each epoch, in an order that depends only on train.seed.");
  data.add("tokenizer", &S::tokenizer, Text{Text::Empty::kRefused, "\"auto\", \"bytes\" or a path"},
           "auto: the tokenizer in the model's folder; bytes: one token per byte; or a "
           "tokenizer.json, tekken.json, a SentencePiece model, a file of tiktoken, or a folder "
           "that contains one of them.")
      .is_path = [](std::string_view text) { return text != "auto" && text != "bytes"; };
  data.add("prepared", &S::prepared, Text{Text::Empty::kAllowed, "\"none\" or a path"},
           "Folder to which am-run prepare writes tokens, and from which jobs read them if they "
           "belong to the same files and tokenizer; or none. Empty: prepared/ beside the plan.")
      .is_path = [](std::string_view text) { return !text.empty() && text != "none"; };
  data.add("token_dtype", &S::token_dtype, Choice{{"uint16", "uint32"}},
           "Integer type of the files of kind tokens.");
  data.add("split_special_tokens", &S::split_special_tokens, Boolean{},
           "Treat special tokens that occur in texts and in the content of messages as text like "
           "any other. Those of the chat template stay tokens.");
  data.add("reset_position_ids", &S::reset_position_ids, Boolean{},
           "Treat sequences as packed documents: position ids restart after each eod_token, and "
           "attention stays inside a document.");
  data.add("eod_token", &S::eod_token, Optional<TokenCodec>{},
           "The token that ends a document: its id, or its name in the tokenizer, for example "
           "\"<|endoftext|>\". With kind text it is added after each file and each line of a "
           ".jsonl; with kind chat after a completion, if there is no template.");
  data.add("loss_on", &S::loss_on, Choice{{"assistant", "last", "all"}},
           "Tokens of a conversation that the loss counts. assistant: all that the assistant "
           "generates; last: only its last message, or the completion; all: every token.");
  data.add("max_length", &S::max_length, Integer{0, int64_t{1} << 31},
           "Longest example of kind chat, in tokens. 0: what fits into a row of train.seq_len.");
  data.add("on_long", &S::on_long, Choice{{"truncate", "drop"}},
           "Treatment of examples longer than max_length. truncate: their ends are cut off; drop: "
           "they are left out.");
  data.add("packing", &S::packing, Boolean{},
           "Put several whole examples of kind chat into a row; attention stays inside an example. "
           "false: one example per row.");
  data.add(
      "columns", &S::columns, ColumnsCodec{},
      "Names of the keys in the files of kind chat, a table key = name, for the keys messages, "
      "tools, prompt, completion, input_ids and labels.");
}

void add_validation(std::vector<FieldSpec>& out) {
  FieldBuilder validation(
      "validation", [](auto& plan) -> auto& { return plan.validation; }, out);
  using S = ValidationSection;
  validation
      .add("every", &S::every, Integer{},
           "Optimizer steps between two validations; the last step has one too. 0: no validation.")
      .also = {"val_check_interval", "eval_interval", "val_every_steps"};
  validation
      .add("steps", &S::steps, Integer{0, 1 << 20},
           "Number of global batches, from the start of the data, over which each validation loss "
           "is averaged; at most one pass. 0: all data.")
      .also = {"eval_iters", "limit_val_batches"};
  validation
      .add("patience", &S::patience, Integer{},
           "Training ends after this number of validations in a row without a new lowest loss. 0: "
           "it does not.")
      .also = {"early_stopping_patience"};
  validation
      .add("path", &S::path, Texts{"path or array of paths"},
           "Files, folders or globs, read as those of [data] are. Required unless data.kind is "
           "synthetic.")
      .is_path = is_any_path;
}

void add_outputs(std::vector<FieldSpec>& out) {
  FieldBuilder checkpoint(
      "checkpoint", [](auto& plan) -> auto& { return plan.checkpoint; }, out);
  using S = CheckpointSection;
  checkpoint
      .add("dir", &S::dir, Text{Text::Empty::kAllowed, "path"},
           "Where step folders are written. Empty: checkpoints/ of the run folder.")
      .is_path = is_any_path;
  checkpoint.add("every", &S::every, Integer{}, "Steps between checkpoints. 0: only at the end.");
  checkpoint.add("keep", &S::keep, Integer{},
                 "Number of this run's checkpoints to keep; those of other runs are never removed. "
                 "0: all.");
  checkpoint.add(
      "keep_every", &S::keep_every, Integer{},
      "Checkpoints of steps that this number divides are kept besides those of `keep`. 0: "
      "none.");
  checkpoint.add("keep_best", &S::keep_best, Integer{},
                 "Number of checkpoints with the lowest validation losses to keep besides those of "
                 "`keep`. 0: none.");
  checkpoint.add(
      "last", &S::last, Boolean{},
      "Save after the last step, whatever `every` says. false: a job that reaches its last step "
      "saves only the checkpoints of `every`; one that is stopped always saves.");
  checkpoint.add("async", &S::async, Boolean{},
                 "Write in the background while training continues.");
  checkpoint.add("metadata_parts", &S::metadata_parts, Integer{},
                 "PyTorch's .metadata is written for checkpoints of at most this many parts of "
                 "tensors, because it has 120 bytes per part and takes seconds for a million. 0: "
                 "always.");
  checkpoint
      .add("resume", &S::resume, Text{Text::Empty::kRefused, "\"auto\", \"none\" or a path"},
           "auto: resume from the newest complete checkpoint, if there is one and it belongs to "
           "this run; none: start a new run; or a path: resume from that checkpoint, even if the "
           "plan differs from its run, or another framework has written it.")
      .is_path = is_path_unless_auto_or_none;
  checkpoint.add("export", &S::export_format, Choice{{"hf", "none"}},
                 "hf: write a Hugging Face folder at the end.");
  checkpoint.add("export_every", &S::export_every, Integer{},
                 "Steps between further exports in the format of `export`. 0: only at the end.");

  FieldBuilder metrics(
      "metrics", [](auto& plan) -> auto& { return plan.metrics; }, out);
  using M = MetricsSection;
  metrics.add("every", &M::every, Integer{1},
              "Steps between lines on the terminal; metrics.jsonl has one for each step.");
  metrics.add("tensorboard", &M::tensorboard, Boolean{}, "Write TensorBoard event files too.");
  metrics.add("trace", &M::trace, Boolean{}, "Write a Chrome trace of each rank.");

  FieldBuilder runtime(
      "runtime", [](auto& plan) -> auto& { return plan.runtime; }, out);
  runtime
      .add("timeout_minutes", &RuntimeSection::timeout_minutes, Number{0.01, 1e6},
           "Minutes that a rank waits for its peers in a collective before the job ends and names "
           "them. am-run --timeout, in seconds, takes precedence.")
      .also = {"dist_timeout", "distributed_timeout_minutes"};

  FieldBuilder cluster(
      "cluster", [](auto& plan) -> auto& { return plan.cluster; }, out);
  using G = ClusterSection;
  cluster
      .add("gpu", &G::gpu, Text{Text::Empty::kAllowed, "text"},
           "The GPU that predictions assume, such as h100-sxm.")
      .is_path = looks_like_path;
  cluster.add("nodes", &G::nodes, Integer{0, 1 << 20},
              "Number of machines. 0: as many as the ranks need.");
  cluster.add("implementation", &G::implementation, Text{},
              "Framework that runs the step: automesh, torchtitan, pytorch, megatron, nemo, ...");
  cluster
      .add("calibration", &G::calibration, Text{Text::Empty::kAllowed, "text"},
           "File with constants of the time model, written by scripts/calibrate. \"\": the "
           "built-in constants.")
      .is_path = looks_like_path;
  cluster.add("hours_between_failures", &G::hours_between_failures, Number{0.0, 1e9},
              "Mean hours until a failure of one GPU ends a job; 50700 in Llama 3's training. 0: "
              "not known.");
  cluster.add("restart_minutes", &G::restart_minutes, Number{0.0, 1e5},
              "Minutes from a failure until the ranks that start again load a checkpoint.");
  cluster.add("storage_gb_per_s", &G::storage_gb_per_s, Number{0.0, 1e6},
              "Rate at which all ranks together write or read checkpoints, in 10^9 bytes per "
              "second. 0: not known.");
}

}  // namespace

void add_training_fields(std::vector<FieldSpec>& out) {
  add_pipeline(out);
  add_context(out);
  add_experts(out);
  add_train(out);
  add_optimizer(out);
  add_data(out);
  add_validation(out);
  add_outputs(out);
}

}  // namespace am::config
