// Rules on data, learning-rate schedule and checkpoints.
#include <glob.h>

#include <array>
#include <filesystem>
#include <variant>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/from_plan.h"
#include "am/layout/precision.h"
#include "am/rules/catalogue.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::rules {
namespace {

constexpr int64_t kByteValues = 256;

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool glob_finds(const std::string& pattern) {
  glob_t found{};
  const bool any = ::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found) == 0;
  globfree(&found);
  return any;
}

// Reports an error if section [SECTION] needs a path and `given`, the value of its key "path", is
// empty.
void require_path(const RuleContext& context, const std::string& section,
                  const std::vector<std::string>& given, const Span& where, Diagnostics& found) {
  const std::string& kind = context.plan.data.kind;
  if (context.plan.data.is_synthetic() || !given.empty()) return;
  found.error(
      section + ".path", where, cat(section, " of kind \"", kind, "\" needs a path"),
      cat("add path = \"...\" or a list of paths to [", section, "], or kind = ", "\"synthetic\""));
}

void check_path(const RuleContext& context, Diagnostics& found) {
  require_path(context, "data", context.plan.data.path, context.plan.span("data.kind"), found);
}

void check_validation_path(const RuleContext& context, Diagnostics& found) {
  const config::ValidationSection& validation = context.plan.validation;
  if (validation.every == 0) return;
  require_path(context, "validation", validation.path, context.plan.span("validation.every"),
               found);
}

// Whether the dataset exists. The path of a Megatron dataset lacks the suffixes .bin and .idx of
// its two files.
bool data_is_there(const std::string& kind, const std::filesystem::path& path) {
  if (is_there(path) || (is_glob(path.string()) && glob_finds(path.string()))) return true;
  return kind == "megatron" && is_there(path.string() + ".bin") && is_there(path.string() + ".idx");
}

void look_up(const RuleContext& context, const std::string& section,
             const std::vector<std::string>& paths, Diagnostics& found) {
  const std::string& kind = context.plan.data.kind;
  if (context.plan.data.is_synthetic()) return;
  for (const std::string& path : paths) {
    const std::filesystem::path resolved = context.plan.resolve(path);
    if (data_is_there(kind, resolved)) continue;
    found.error(section + ".missing", context.plan.span(section + ".path"),
                cat(resolved.string(), ": no such file or folder"),
                kind == "megatron" ? "give the common part PATH of the files PATH.bin and PATH.idx"
                                   : "the path is relative to the plan file");
  }
}

void check_missing(const RuleContext& context, Diagnostics& found) {
  look_up(context, "data", context.plan.data.path, found);
}

void check_validation_missing(const RuleContext& context, Diagnostics& found) {
  const config::ValidationSection& validation = context.plan.validation;
  if (validation.every > 0) look_up(context, "validation", validation.path, found);
}

// Reports an id of eod_token that the model does not have.
void check_eod_id(const RuleContext& context, int64_t id, Diagnostics& found) {
  if (context.model == nullptr || id < context.model->vocab_size) return;
  found.error("data.documents", context.plan.span("data.eod_token"),
              cat("eod_token = ", id, " is beyond vocab_size = ", context.model->vocab_size),
              cat("legal: 0 to ", context.model->vocab_size - 1));
}

void check_documents(const RuleContext& context, Diagnostics& found) {
  const config::DataSection& data = context.plan.data;
  if (data.reset_position_ids && !data.eod_token) {
    found.error("data.documents", context.plan.span("data.reset_position_ids"),
                "reset_position_ids = true needs to know where documents end",
                "set eod_token to the token that ends a document");
    return;
  }
  const auto* id = data.eod_token ? std::get_if<int64_t>(&*data.eod_token) : nullptr;
  if (id != nullptr) check_eod_id(context, *id, found);
}

void check_eod_name(const RuleContext& context, Diagnostics& found) {
  const config::DataSection& data = context.plan.data;
  if (!data.eod_token || !std::holds_alternative<std::string>(*data.eod_token)) return;
  try {
    check_eod_id(context, *data::eod_token_id(context.plan), found);
  } catch (const Error& error) {
    found.error("data.eod_token", context.plan.span("data.eod_token"), error.what(), error.hint());
  }
}

void check_tokenizer(const RuleContext& context, Diagnostics& found) {
  const config::DataSection& data = context.plan.data;
  if (data.kind != "text" && data.kind != "chat") return;
  if (data.tokenizer != "bytes") {
    const std::filesystem::path path = context.plan.resolve(data.tokenizer);
    if (!is_there(path)) {
      found.error("data.tokenizer", context.plan.span("data.tokenizer"),
                  cat(path.string(), ": no such file"),
                  "give a tokenizer.json, tokenizer.model or tekken.json, or \"bytes\"");
    }
  } else if (data.kind == "text" && context.model != nullptr &&
             context.model->vocab_size < kByteValues) {
    found.error("data.tokenizer", context.plan.span("data.tokenizer"),
                cat("tokenizer \"bytes\" gives ", kByteValues,
                    " tokens, but vocab_size = ", context.model->vocab_size),
                cat("vocab_size = ", kByteValues, " or more in ", context.model->file));
  }
}

void check_examples(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const auto only_chat = [&](const char* key, bool differs) {
    if (!differs || plan.data.has_examples()) return;
    found.warning("data.examples", plan.span(key),
                  cat(key, " has no effect: data.kind is \"", plan.data.kind, "\""),
                  "kind = \"chat\" in [data]");
  };
  only_chat("data.loss_on", plan.data.loss_on != "assistant");
  only_chat("data.max_length", plan.data.max_length != 0);
  only_chat("data.on_long", plan.data.on_long != "truncate");
  only_chat("data.packing", !plan.data.packing);
  only_chat("data.columns", !plan.data.columns.empty());
  if (!plan.data.has_examples()) return;
  if (plan.data.max_length == 1 || plan.data.max_length > plan.train.seq_len + 1) {
    found.error("data.examples", plan.span("data.max_length"),
                cat("max_length = ", plan.data.max_length,
                    " does not fit into rows of seq_len = ", plan.train.seq_len),
                cat("legal: 0, and 2 to ", plan.train.seq_len + 1));
  }
  if (!plan.data.packing && context.model != nullptr && context.model->moe.has_value() &&
      plan.experts.balancing != "none") {
    found.warning("data.examples", plan.span("data.packing"),
                  "the padding of rows counts in the balance of experts", "packing = true");
  }
  if (plan.data.reset_position_ids) {
    found.warning(
        "data.examples", plan.span("data.reset_position_ids"),
        "reset_position_ids has no effect: packed examples always have positions of their own",
        "remove the key; packing = false puts one example into each row");
  }
}

void check_token_dtype(const RuleContext& context, Diagnostics& found) {
  const config::DataSection& data = context.plan.data;
  if (data.kind != "tokens" || data.token_dtype != "uint16" || context.model == nullptr) return;
  if (context.model->vocab_size <= 65536) return;
  found.warning("data.token_dtype", context.plan.span("data.token_dtype"),
                cat("uint16 cannot hold the ids of a vocabulary of ", context.model->vocab_size),
                "set token_dtype = \"uint32\", if the files hold 32-bit ids");
}

void check_warmup(const RuleContext& context, Diagnostics& found) {
  const config::SchedulerSection& scheduler = context.plan.scheduler;
  const int64_t steps = context.plan.train.max_steps;
  if (scheduler.warmup_steps > steps) {
    found.error("scheduler.warmup", context.plan.span("scheduler.warmup_steps"),
                cat("warmup_steps = ", scheduler.warmup_steps, " is more than max_steps = ", steps),
                cat("warmup_steps = ", steps, " or less"));
  }
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
    found.error("scheduler.decay", where,
                cat("warmup_steps + decay_steps = ", scheduler.warmup_steps, " + ",
                    scheduler.decay_steps, " is more than max_steps = ", steps),
                "lower one of the two: with wsd, decay_steps is the length of the final decay");
  } else if (scheduler.decay_steps <= scheduler.warmup_steps) {
    found.error("scheduler.decay", where,
                cat("decay_steps = ", scheduler.decay_steps,
                    " does not end after warmup_steps = ", scheduler.warmup_steps),
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
  found.error("train.float16", context.plan.span("model.dtype"),
              "parameters that are stored in float16 cannot be trained: AdamW's second moment, and "
              "its eps of 1e-8, are zero there",
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

constexpr std::array<Rule, 16> kRules = {{
    {.id = "data.path",
     .summary = "data that is read from files has a path",
     .explain = "The kinds synthetic and synthetic_chat need no files. text takes UTF-8 files, "
                "folders or globs; chat takes files of conversations, folders or globs; tokens "
                "takes files of little-endian integers; megatron takes the common part of a .bin "
                "and .idx pair.",
     .check = check_path},
    {.id = "data.missing",
     .summary = "the data's files exist",
     .explain = "Every path of [data] is looked up before any rank starts. Relative paths start at "
                "the plan file's folder, not at the current one.",
     .needs = Needs::kFiles,
     .check = check_missing},
    {.id = "validation.path",
     .summary = "validation data that is read from files has a path",
     .explain =
         "With validation.every = N the loss on other data is taken every N steps. That data "
         "is read as [data] says, by its kind, tokenizer and token_dtype, from "
         "validation.path. Only the kinds synthetic and synthetic_chat need no path.",
     .check = check_validation_path},
    {.id = "validation.missing",
     .summary = "validation's files exist",
     .explain =
         "Every path of [validation] is looked up before any rank starts, as those of [data] "
         "are, and not after the first validation.every steps.",
     .needs = Needs::kFiles,
     .check = check_validation_missing},
    {.id = "data.documents",
     .summary = "documents packed into sequences end with a known token",
     .explain = "With reset_position_ids several documents share a sequence: positions start again "
                "at 0 after each one, and attention does not look from one into another, as if "
                "each were a sequence of its own. eod_token says which token ends a document; it "
                "belongs to the document that it ends.",
     .check = check_documents},
    {.id = "data.eod_token",
     .summary = "the tokenizer has the token that ends documents",
     .explain =
         "eod_token = \"<|endoftext|>\" is looked up among the tokens of data.tokenizer "
         "when the plan is opened, and is an id from then on. An id, eod_token = 0, needs no "
         "tokenizer.",
     .needs = Needs::kFiles,
     .check = check_eod_name},
    {.id = "data.tokenizer",
     .summary = "the tokenizer exists and fits the model's vocabulary",
     .explain = "\"bytes\" makes one token of each byte, so vocab_size must be 256 or more. "
                "Anything else is the path of a tokenizer.json, of a SentencePiece model, of a "
                "tekken.json or of a file of tiktoken, or of a folder that contains one.",
     .needs = Needs::kFiles,
     .check = check_tokenizer},
    {.id = "data.examples",
     .summary = "keys of examples belong to kind \"chat\", and examples fit into rows",
     .explain =
         "loss_on, max_length, on_long, packing and columns are keys of data.kind = \"chat\", "
         "files of conversations: the loss counts only the tokens that loss_on selects. A row of "
         "train.seq_len positions holds examples of up to seq_len + 1 tokens, because the last "
         "token of an example is only a label. With packing, a row has several whole examples, and "
         "attention stays inside each of them.",
     .check = check_examples},
    {.id = "data.token_dtype",
     .summary = "token files are wide enough for the vocabulary (a warning)",
     .explain = "A vocabulary of more than 65 536 entries does not fit 16 bits. Files of 32-bit "
                "ids that are read as 16-bit ones give every second token as 0, without an error.",
     .check = check_token_dtype},
    {.id = "train.float16",
     .summary = "parameters that are trained are not stored in float16",
     .explain =
         "float16 holds nothing below 6e-8. The square of a gradient of 1e-4 is less, and so is "
         "AdamW's eps: the moments, which are stored as the parameters are, become zero, and the "
         "update a division by zero. Use mixed precision: parameters and moments in float32 "
         "(model.dtype), the computation in float16 (mp_policy.param_dtype or autocast_dtype of "
         "fsdp2, autocast_dtype of ddp; preserve_fp32_weights = true of megatron_fsdp, which "
         "computes in model.dtype), with a loss scale (train.loss_scale) against underflow of the "
         "gradients. bfloat16 has float32's range and needs none of it.",
     .check = check_float16},
    {.id = "train.on_nonfinite",
     .summary = "no earlier check ends the job before on_nonfinite applies (a warning)",
     .explain =
         "train.on_nonfinite says what happens after a step whose loss or gradient norm is not "
         "finite. megatron_fsdp's check_for_nan_in_grad looks at each rank's gradients as soon as "
         "they are reduced, and ends the job. To skip such steps or to go on, turn it off.",
     .check = check_on_nonfinite},
    {.id = "train.loss_scale",
     .summary = "a loss scale is for float16 (a warning)",
     .explain = "Where neither computation nor reduction is in float16 the loss is not scaled: "
                "bfloat16 and float32 hold the smallest gradients as they are.",
     .check = check_loss_scale},
    {.id = "scheduler.warmup",
     .summary = "the warm-up ends within the job",
     .explain = "The learning rate rises linearly over warmup_steps. A warm-up that is longer than "
                "max_steps never reaches lr.",
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
    {.id = "checkpoint.resume",
     .summary = "the checkpoint to resume from exists",
     .explain =
         "\"auto\" resumes from the newest complete checkpoint, or starts a new run if there is "
         "none; \"none\" always starts a new run. A path must exist: a typo must not restart a "
         "job from step 0.",
     .needs = Needs::kFiles,
     .check = check_resume},
}};

}  // namespace

std::span<const Rule> training_rules() { return kRules; }

}  // namespace am::rules
