// Rules on precision, learning-rate schedule, checkpoints and traces.
#include <array>
#include <filesystem>
#include <variant>

#include "am/base/text.h"
#include "am/config/overrides.h"
#include "am/layout/precision.h"
#include "am/rules/catalogue.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::rules {
namespace {

// Returns the severity of a setting that refers to steps after the job's end: a warning if the
// command line (--steps or --set) shortens the job for a trial, otherwise an error.
Severity beyond_steps(const RuleContext& context) {
  const bool trial = context.plan.given("train.max_steps") &&
                     context.plan.span("train.max_steps").file == config::kOverrideFile;
  return trial ? Severity::kWarning : Severity::kError;
}

void check_warmup(const RuleContext& context, Diagnostics& found) {
  const config::SchedulerSection& scheduler = context.plan.scheduler;
  const int64_t steps = context.plan.train.max_steps;
  if (!context.plan.max_steps_apply() || scheduler.warmup_steps <= steps) return;
  found.add({"scheduler.warmup", beyond_steps(context), context.plan.span("scheduler.warmup_steps"),
             cat("warmup_steps = ", scheduler.warmup_steps, " is more than max_steps = ", steps),
             cat("warmup_steps = ", steps, " or less")});
}

void check_decay(const RuleContext& context, Diagnostics& found) {
  const config::SchedulerSection& scheduler = context.plan.scheduler;
  const Span where = context.plan.span("scheduler.decay_steps");
  const int64_t steps = context.plan.train.max_steps;
  if (scheduler.decay_steps == 0) return;
  if (scheduler.name == "constant") {
    found.warning("scheduler.decay", where, "decay_steps has no effect: the scheduler is constant",
                  "name = \"cosine\", \"linear\" or \"wsd\"");
  } else if (scheduler.name == "wsd") {
    if (scheduler.warmup_steps + scheduler.decay_steps <= steps) return;
    if (!context.plan.max_steps_apply()) return;
    found.add({"scheduler.decay", beyond_steps(context), where,
               cat("warmup_steps + decay_steps = ", scheduler.warmup_steps, " + ",
                   scheduler.decay_steps, " is more than max_steps = ", steps),
               "lower one of the two: with wsd, decay_steps is the length of the final decay"});
  } else if (scheduler.decay_steps <= scheduler.warmup_steps) {
    found.error("scheduler.decay", where,
                cat("decay_steps = ", scheduler.decay_steps,
                    " is not after warmup_steps = ", scheduler.warmup_steps),
                "set decay_steps to the step that reaches min_lr, or to 0 for max_steps");
  }
}

void check_min_lr(const RuleContext& context, Diagnostics& found) {
  const config::SchedulerSection& scheduler = context.plan.scheduler;
  if (scheduler.name == "constant" || scheduler.min_lr <= context.plan.optimizer.lr) return;
  found.error("scheduler.min_lr", context.plan.span("scheduler.min_lr"),
              cat("min_lr = ", scheduler.min_lr, " is above lr = ", context.plan.optimizer.lr),
              "lower min_lr, or raise lr: the schedule falls from lr to min_lr");
}

void check_keep_best(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const config::CheckpointSection& checkpoint = plan.checkpoint;
  if (checkpoint.keep == 0 && (checkpoint.keep_best > 0 || checkpoint.keep_every > 0)) {
    found.warning("checkpoint.keep_best", plan.span("checkpoint.keep"),
                  "keep_best and keep_every have no effect: without keep, all checkpoints stay",
                  "keep = N");
  }
  if (checkpoint.keep_best == 0) return;
  const int64_t every = plan.validation.every;
  if (every > 0 && (plan.checkpoint.every == 0 || plan.checkpoint.every % every == 0)) return;
  found.error(
      "checkpoint.keep_best", plan.span("checkpoint.keep_best"),
      every == 0 ? "keep_best compares validation losses, but there is no validation"
                 : cat("checkpoint.every = ", plan.checkpoint.every,
                       " saves at steps without validation: validation.every = ", every),
      every == 0 ? "every = N in [validation]" : cat("every = ", every, " in [checkpoint]"));
}

void check_export_every(const RuleContext& context, Diagnostics& found) {
  const config::CheckpointSection& checkpoint = context.plan.checkpoint;
  if (checkpoint.export_every == 0 || checkpoint.export_format != "none") return;
  found.error("checkpoint.export_every", context.plan.span("checkpoint.export_every"),
              "export_every needs a format", "export = \"hf\"");
}

void check_trace(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  if (!plan.metrics.trace) return;
  const int64_t world_size = context.mesh == nullptr ? 0 : context.mesh->world_size();
  for (const int64_t rank : plan.metrics.trace->ranks) {
    if (world_size == 0 || rank < world_size) continue;
    found.error("metrics.trace", plan.span("metrics.trace"),
                cat("trace.ranks has rank ", rank, ", but the job has only ", world_size,
                    world_size == 1 ? " rank" : " ranks"),
                cat("ranks from 0 to ", world_size - 1));
  }
  const int64_t steps = plan.train.max_steps;
  if (!plan.max_steps_apply() || plan.metrics.trace->start <= steps) return;
  found.add({"metrics.trace", beyond_steps(context), plan.span("metrics.trace"),
             cat("start = ", plan.metrics.trace->start, " is after max_steps = ", steps),
             cat("start = ", steps, " or less")});
}

void check_ema(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const std::string storage = layout::resolve_precision(plan).storage;
  if (plan.optimizer.ema_decay == 0.0 || storage == "float32") return;
  found.error("optimizer.ema_decay", plan.span("optimizer.ema_decay"),
              cat("ema_decay = ", plan.optimizer.ema_decay,
                  " needs parameters that are stored in float32: in ", storage,
                  " the average would lose most of each update"),
              "dtype = \"float32\" in [model]; fsdp2 computes in bfloat16 with mp_policy");
}

void check_resume(const RuleContext& context, Diagnostics& found) {
  const std::string& resume = context.plan.checkpoint.resume;
  if (resume == "auto" || resume == "none") return;
  const std::filesystem::path path = context.plan.resolve(resume);
  const auto refusal = run_folder::why_no_checkpoint(path);
  if (!refusal) return;
  found.error("checkpoint.resume", context.plan.span("checkpoint.resume"), refusal->message,
              refusal->help);
}

void check_float16(const RuleContext& context, Diagnostics& found) {
  if (layout::resolve_precision(context.plan).storage != "float16") return;
  const bool megatron = std::holds_alternative<config::MegatronFSDPConfig>(context.plan.strategy);
  found.error(
      "train.float16", context.plan.span("model.dtype"),
      "parameters that are stored in float16 cannot be trained: small updates, AdamW's second "
      "moment and its eps of 1e-8 are zero in float16",
      megatron ? "preserve_fp32_weights = true in [strategy], or dtype = \"bfloat16\""
               : "dtype = \"float32\"; fsdp2 computes in float16 with mp_policy = { "
                 "param_dtype = \"float16\" }, fsdp2 and ddp with autocast_dtype");
}

void check_on_nonfinite(const RuleContext& context, Diagnostics& found) {
  const std::string& wanted = context.plan.train.on_nonfinite;
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&context.plan.strategy);
  if (wanted == "stop" || megatron == nullptr) return;
  const bool reports = megatron->report_nan_in_param_grad;
  if (!reports && !megatron->check_for_nan_in_grad) return;
  // With loss scaling, the keys check_for_nan_in_grad and report_nan_in_param_grad do not stop the
  // job.
  if (layout::scales_loss(context.plan)) return;
  found.warning("train.on_nonfinite", context.plan.span("train.on_nonfinite"),
                cat("on_nonfinite = \"", wanted, "\" has no effect: ",
                    reports ? "report_nan_in_param_grad" : "check_for_nan_in_grad",
                    " = true stops the job first"),
                reports ? "report_nan_in_param_grad = false and check_for_nan_in_grad = false in "
                          "[strategy]"
                        : "check_for_nan_in_grad = false in [strategy]");
}

void check_loss_scale(const RuleContext& context, Diagnostics& found) {
  if (context.plan.train.loss_scale == 0.0 || layout::scales_loss(context.plan)) return;
  found.warning("train.loss_scale", context.plan.span("train.loss_scale"),
                "loss_scale has no effect: nothing computes or reduces in float16",
                "remove the key");
}

constexpr std::array<Rule, 11> kRules = {{
    {.id = "train.float16",
     .summary = "parameters that are trained are not stored in float16",
     .explain =
         "float16 holds nothing below 6e-8. The square of a gradient of 1e-4 is less, and so is "
         "AdamW's eps: the moments, which have the dtype of the parameters, become zero, and the "
         "update divides by zero. Use mixed precision: parameters and moments in float32 "
         "(model.dtype), the computation in float16 (mp_policy.param_dtype or autocast_dtype of "
         "fsdp2, autocast_dtype of ddp; preserve_fp32_weights = true of megatron_fsdp, which "
         "computes in model.dtype), with a loss scale (train.loss_scale) against underflow of the "
         "gradients. bfloat16 has float32's range and needs none of it.",
     .check = check_float16},
    {.id = "train.on_nonfinite",
     .summary = "no earlier check ends the job before on_nonfinite applies (a warning)",
     .explain =
         "train.on_nonfinite selects what happens after a step whose loss or gradient norm is not "
         "finite. megatron_fsdp's check_for_nan_in_grad checks each rank's gradients as soon as "
         "they are reduced, and ends the job if one is not finite. To skip such steps or to "
         "continue after them, set it to false.",
     .check = check_on_nonfinite},
    {.id = "train.loss_scale",
     .summary = "a loss scale is for float16 (a warning)",
     .explain = "Where neither computation nor reduction is in float16 the loss is not scaled: "
                "bfloat16 and float32 hold the smallest gradients as they are.",
     .check = check_loss_scale},
    {.id = "optimizer.ema_decay",
     .summary = "a moving average is stored in float32",
     .explain =
         "Each step moves the average by (1 - ema_decay) of its distance to the parameter. "
         "bfloat16 has 8 significant bits, so a change below 1/512 of the value is lost: with a "
         "decay of 0.999 the average would not follow. The average has the dtype of the stored "
         "parameters.",
     .check = check_ema},
    {.id = "scheduler.warmup",
     .summary = "the warm-up ends within the job",
     .explain = "The learning rate rises linearly over warmup_steps. A warm-up that is longer than "
                "max_steps never reaches lr. If --steps shortens the job, this is a warning.",
     .check = check_warmup},
    {.id = "scheduler.decay",
     .summary = "the decay fits between the warm-up and the end",
     .explain = "cosine and linear: decay_steps is the step that reaches min_lr (0: max_steps), so "
                "it comes after the warm-up. wsd: decay_steps is the length of the final decay, so "
                "warm-up and decay together fit into max_steps.",
     .check = check_decay},
    {.id = "scheduler.min_lr",
     .summary = "min_lr does not exceed lr",
     .explain =
         "The schedules fall from optimizer.lr to scheduler.min_lr. Otherwise the rate would "
         "rise at the end of training, which is never intended.",
     .check = check_min_lr},
    {.id = "checkpoint.keep_best",
     .summary = "checkpoints that are compared have a validation loss",
     .explain =
         "keep_best keeps the checkpoints with the lowest validation losses. A checkpoint has "
         "the loss of the validation after its step, so validation.every must divide "
         "checkpoint.every.",
     .check = check_keep_best},
    {.id = "checkpoint.export_every",
     .summary = "an export every N steps has a format",
     .explain = "export_every = N exports the model every N steps, in the format of "
                "checkpoint.export, which is \"none\" by default.",
     .check = check_export_every},
    {.id = "metrics.trace",
     .summary = "the steps and ranks that are traced exist",
     .explain = "metrics.trace writes the operations of the steps from start on, on the given "
                "ranks. A job without these steps or ranks would end without a trace.",
     .check = check_trace},
    {.id = "checkpoint.resume",
     .summary = "the checkpoint to resume from exists",
     .explain =
         "\"auto\" resumes from the newest complete checkpoint, or starts a new run if there is no "
         "checkpoint; if all checkpoints are incomplete, the job ends with an error. \"none\" "
         "always starts a new run. A path must exist: a typo must not restart a job from step 0.",
     .needs = Needs::kFiles,
     .check = check_resume},
}};

}  // namespace

std::span<const Rule> training_rules() { return kRules; }

}  // namespace am::rules
