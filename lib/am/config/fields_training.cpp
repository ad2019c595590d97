// Defines the keys of the plan file's sections [pipeline], [context], [experts], [train],
// [optimizer] and [scheduler].
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
               "Micro-batches in one run of the schedule. 0: as many as there are stages or, under "
               "the strategy megatron, all micro-batches of a step.");
  pipeline.add("virtual_stages", &S::virtual_stages, Integer{1, 1 << 10}, "Stages per rank.");
  pipeline.add("split_points", &S::split_points, Integers{Integer{0, 1 << 20}},
               "First layer of each stage after the first. Empty: layers are distributed according "
               "to balance. The first stage may hold the embedding alone (0 first), and the last "
               "stage the head alone (the number of layers last).");
  pipeline.add("balance", &S::balance, Choice{{"layers", "cost"}},
               "What is balanced over the stages if split_points is empty. layers: the number of "
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
           "Factor of the auxiliary loss. For each layer and sequence, this loss is a sum over the "
           "experts: the number of experts times the expert's share of the choices times its mean "
           "score.")
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
            "in a new run, one micro-batch per data parallel rank or, with a pipeline, the "
            "micro-batches of one run of the schedule.");
  train
      .add("max_steps", &S::max_steps, Integer{0, int64_t{1} << 40},
           "Optimizer steps of the run, including those of earlier jobs.")
      .also = {"steps", "train_iters", "num_steps"};
  train
      .add("epochs", &S::epochs, Integer{0, 1 << 20},
           "Passes through the data, after which the job ends; the last step may have fewer "
           "samples. 0: no limit. If epochs is set, the default of max_steps does not apply.")
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
           "Factor of the z-loss, the mean of logsumexp(logits)^2 over the labels. Gradients "
           "contain it; the reported loss does not.")
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
  train.add("seed", &S::seed, Integer{0},
            "Seed of the data order, of synthetic data, of dropout and of NEFTune's noise.");
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
  TableOf<OptimizerGroup> group;
  group.add("match", &OptimizerGroup::match, Texts{},
            "Globs over the names of parameters, in which * also matches dots.",
            /*required=*/true);
  group.add("lr", &OptimizerGroup::lr, Optional<Number>{},
            "Peak learning rate, which follows the schedule in proportion.");
  group.add("weight_decay", &OptimizerGroup::weight_decay, Optional<Number>{}, "Weight decay.");
  group.add("name", &OptimizerGroup::name, Optional<Choice>{Choice{{"adamw"}}},
            "adamw: if optimizer.name = \"muon\", AdamW updates these parameters.");
  optimizer
      .add("group", &S::groups, Tables<OptimizerGroup>{group},
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
                "final decay (0: a tenth of max_steps).");
}

}  // namespace

void add_training_fields(std::vector<FieldSpec>& out) {
  add_pipeline(out);
  add_context(out);
  add_experts(out);
  add_train(out);
  add_optimizer(out);
}

}  // namespace am::config
