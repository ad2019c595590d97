// Rules on training and validation data.
#include <glob.h>

#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <variant>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/from_plan.h"
#include "am/data/tokenizer.h"
#include "am/formats/weight_files.h"
#include "am/rules/catalogue.h"

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

bool is_synthetic(std::string_view kind) { return starts_with(kind, "synthetic"); }

// Reports an error if section [SECTION] needs a path and `given`, the value of its key "path", is
// empty.
void require_path(const RuleContext& context, const std::string& section,
                  const std::vector<std::string>& given, const Span& where, Diagnostics& found) {
  const std::string& kind = context.plan.data.kind;
  if (is_synthetic(kind) || !given.empty()) return;
  found.error(section + ".path", where, cat(section, " of kind \"", kind, "\" needs a path"),
              cat("add path = \"...\" or a list of paths to [", section,
                  "], or kind = \"synthetic\" to [data]"));
}

void check_path(const RuleContext& context, Diagnostics& found) {
  if (!context.plan.data.sources.empty()) return;
  require_path(context, "data", context.plan.data.path, context.plan.span("data.kind"), found);
}

void check_validation_path(const RuleContext& context, Diagnostics& found) {
  const config::ValidationSection& validation = context.plan.validation;
  if (validation.every == 0) return;
  if (validation.path.empty() && !validation.sets.empty()) return;
  if (!context.plan.data.sources.empty() && is_synthetic(context.plan.data.kind)) {
    found.error("validation.path", context.plan.span("validation.every"),
                cat("validation.path needs a kind with files, but kind = \"",
                    context.plan.data.kind, "\" in [data] applies to validation too"),
                "kind = \"text\" in [data]; keep the [[data.source]] tables");
    return;
  }
  require_path(context, "validation", validation.path, context.plan.span("validation.every"),
               found);
}

void check_validation_sets(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  std::set<std::string> names;
  for (size_t i = 0; i < plan.validation.sets.size(); ++i) {
    const config::ValidationSetSection& set = plan.validation.sets[i];
    const Span where = plan.span(cat("validation.set.", i));
    const bool is_name = set.name.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
                         std::string::npos;
    if (!is_name) {
      found.error("validation.set", where,
                  cat("the set's name \"", set.name, "\" cannot be part of a metric's name"),
                  "use letters, digits, _, . and -");
    }
    if (!names.insert(set.name).second) {
      found.error("validation.set", where, cat("two sets have the name \"", set.name, "\""),
                  "give each set a name of its own");
    }
    if (set.path.empty()) {
      found.error("validation.set", where, "the set has no path", "path = \"...\" in the set");
    }
    if (set.kind || !is_synthetic(plan.data.kind)) continue;
    found.error("validation.set", where,
                cat("the set needs a kind with files, but kind = \"", plan.data.kind,
                    "\" in [data] applies to it too"),
                "kind = \"text\" in the set");
  }
}

// Whether the dataset exists. The path of a Megatron dataset lacks the suffixes .bin and .idx of
// its two files.
bool data_is_there(const std::string& kind, const std::filesystem::path& path) {
  if (is_there(path) || (is_glob(path.string()) && glob_finds(path.string()))) return true;
  return kind == "megatron" && is_there(path.string() + ".bin") && is_there(path.string() + ".idx");
}

// Reports each of `paths`, the value of the key `key`, that does not exist.
void look_up(const RuleContext& context, const std::string& section, const std::string& key,
             const std::string& kind, const std::vector<std::string>& paths, Diagnostics& found) {
  if (is_synthetic(kind)) return;
  for (const std::string& path : paths) {
    const std::filesystem::path resolved = context.plan.resolve(path);
    if (data_is_there(kind, resolved)) continue;
    found.error(section + ".missing", context.plan.span(key),
                cat(resolved.string(), ": no such file or folder"),
                kind == "megatron" ? "give the common part PATH of the files PATH.bin and PATH.idx"
                                   : "a relative path starts at the plan file's folder");
  }
}

void check_missing(const RuleContext& context, Diagnostics& found) {
  const config::DataSection& data = context.plan.data;
  look_up(context, "data", "data.path", data.kind, data.path, found);
  for (size_t i = 0; i < data.sources.size(); ++i) {
    look_up(context, "data", cat("data.source.", i, ".path"), data.kind_of(data.sources[i]),
            data.sources[i].path, found);
  }
}

// Whether training starts from weights in files.
bool loads_weights(const config::Plan& plan) {
  const std::string& weights = plan.model.weights;
  if (weights != "auto") return weights != "none" && is_there(plan.resolve(weights));
  return formats::weight_files(folder_of(plan.resolve(plan.model.path))).safetensors;
}

void check_sources(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const config::DataSection& data = plan.data;
  if (data.sources.empty()) return;
  if (!data.path.empty()) {
    found.error("data.source", plan.span("data.path"),
                "data.path and data.source exclude each other",
                "write the path as a further [[data.source]]");
  }
  double weights = 0.0;
  for (size_t i = 0; i < data.sources.size(); ++i) {
    weights += data.sources[i].weight;
    if (data.sources[i].path.empty()) {
      found.error("data.source", plan.span(cat("data.source.", i)), "the source has no path",
                  "path = \"...\" in the source");
    }
    if (data.sources[i].kind || !is_synthetic(data.kind)) continue;
    found.error("data.source", plan.span(cat("data.source.", i)), "the source has no kind",
                "kind = \"text\" in the source, or in [data] for all sources");
  }
  if (weights <= 0.0) {
    found.error("data.source", plan.span("data.source"), "no source has a weight above 0",
                "weight = 1.0 in a source");
  }
  if (plan.train.epochs > 0) {
    found.error("data.source", plan.span("train.epochs"),
                "train.epochs does not apply to a mixture: each source has its own epochs",
                "epochs = N in each source, or max_steps in [train]");
  }
}

void check_synthetic(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  if (!plan.data.is_synthetic()) return;
  if (plan.train.epochs > 0 && plan.data.kind == "synthetic") {
    found.error("data.synthetic", plan.span("train.epochs"),
                "synthetic data have no end, so they have no epochs", "max_steps in [train]");
  }
  if (!loads_weights(plan)) return;
  found.warning("data.synthetic", plan.span("data.kind"),
                "the model's weights are loaded, but the data are synthetic: training would undo "
                "what the weights have learned",
                "kind = \"text\" and path = \"...\" in [data]; or weights = \"none\" in [model]");
}

void check_validation_missing(const RuleContext& context, Diagnostics& found) {
  const config::ValidationSection& validation = context.plan.validation;
  if (validation.every == 0) return;
  look_up(context, "validation", "validation.path", context.plan.data.kind, validation.path, found);
  for (size_t i = 0; i < validation.sets.size(); ++i) {
    look_up(context, "validation", cat("validation.set.", i, ".path"),
            validation.kind_of(validation.sets[i], context.plan.data), validation.sets[i].path,
            found);
  }
}

// Reports an error if `id`, the value of eod_token, is not in the model's vocabulary.
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
                "reset_position_ids = true needs eod_token, which marks where documents end",
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

// Adds a note if weights are loaded and the tokenizer file at `path` differs from the file of the
// same name in the model's folder.
void note_foreign(const RuleContext& context, const std::filesystem::path& path,
                  Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const auto own = data::find_tokenizer(folder_of(plan.resolve(plan.model.path)));
  if (!own || !loads_weights(plan)) return;
  const std::filesystem::path given = data::tokenizer_file(path.string());
  if (!is_there(given) || given.filename() != own->filename()) return;
  if (read_file(given) == read_file(*own)) return;
  found.add({"data.tokenizer", Severity::kNote, plan.span("data.tokenizer"),
             cat("the plan's tokenizer differs from the model's own, ", own->string()),
             "tokenizer = \"auto\" uses the model's own"});
}

void check_tokenizer(const RuleContext& context, Diagnostics& found) {
  const config::DataSection& data = context.plan.data;
  if (!data.reads_text()) return;
  const Span where = context.plan.span("data.tokenizer");
  if (data.tokenizer != "auto" && data.tokenizer != "bytes") {
    const std::filesystem::path path = context.plan.resolve(data.tokenizer);
    if (is_there(path)) return note_foreign(context, path, found);
    found.error("data.tokenizer", where, cat(path.string(), ": no such file"),
                "give a tokenizer.json, tokenizer.model or tekken.json, \"auto\" or \"bytes\"");
    return;
  }
  if (data::tokenizer_name(context.plan) != "bytes") return;
  if (data.tokenizer == "auto" && loads_weights(context.plan)) {
    found.warning(
        "data.tokenizer", where,
        "weights are loaded, but the model's folder has no tokenizer: each byte of a text "
        "becomes a token",
        "give the tokenizer's path, or write tokenizer = \"bytes\"");
  }
  if (data.has_kind("text") && context.model != nullptr &&
      context.model->vocab_size < kByteValues) {
    found.error("data.tokenizer", where,
                cat("tokenizer \"bytes\" has ", kByteValues,
                    " tokens, but vocab_size = ", context.model->vocab_size),
                cat("vocab_size = ", kByteValues, " or more in ", context.model->file));
  }
}

void check_examples(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const auto only_chat = [&](const char* key, bool differs) {
    if (!differs || plan.data.has_examples()) return;
    found.warning("data.examples", plan.span(key),
                  cat(key, " has no effect: no data have the kind \"chat\""),
                  "kind = \"chat\" in [data], or remove the key");
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
                    " is not possible with seq_len = ", plan.train.seq_len,
                    ": an example has 2 to seq_len + 1 tokens, of which the last is only a label"),
                cat("legal: 0 (as many tokens as a row), and 2 to ", plan.train.seq_len + 1));
  }
  if (!plan.data.packing && context.model != nullptr && context.model->moe.has_value() &&
      plan.experts.balancing != "none") {
    found.warning("data.examples", plan.span("data.packing"),
                  "with packing = false, the load balancing of experts also counts padding",
                  "packing = true");
  }
  if (plan.data.reset_position_ids && plan.data.sources.empty()) {
    found.warning("data.examples", plan.span("data.reset_position_ids"),
                  "reset_position_ids has no effect: examples always have positions of their own",
                  "remove the key; packing = false puts one example into each row");
  }
}

void check_token_dtype(const RuleContext& context, Diagnostics& found) {
  const config::DataSection& data = context.plan.data;
  if (!data.has_kind("tokens") || data.token_dtype != "uint16" || context.model == nullptr) return;
  if (context.model->vocab_size <= 65536) return;
  found.warning("data.token_dtype", context.plan.span("data.token_dtype"),
                cat("uint16 cannot hold the ids of a vocabulary of ", context.model->vocab_size),
                "set token_dtype = \"uint32\", if the files hold 32-bit ids");
}

void check_patience(const RuleContext& context, Diagnostics& found) {
  const config::ValidationSection& validation = context.plan.validation;
  if (validation.patience > 0 && validation.every == 0) {
    found.error("validation.patience", context.plan.span("validation.patience"),
                "patience counts validations, but there are none", "every = N in [validation]");
  }
  if (validation.every > 0 && validation.steps == 0 && context.plan.data.is_synthetic() &&
      context.plan.data.kind == "synthetic") {
    found.error("validation.patience", context.plan.span("validation.steps"),
                "steps = 0 takes all validation data, but synthetic data have no end",
                "steps = 1 or more");
  }
}

constexpr std::array<Rule, 13> kRules = {{
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
         "With validation.every = N the loss on the data of validation.path is computed every N "
         "steps. These data have the kind, tokenizer and token_dtype of [data]. The kinds "
         "synthetic and synthetic_chat need no path, nor does a plan with [[validation.set]].",
     .check = check_validation_path},
    {.id = "validation.set",
     .summary = "validation sets have names of their own, and a kind",
     .explain = "Each [[validation.set]] has a loss under its name, validation_loss/NAME in "
                "metrics.jsonl. Its files have the kind of [data] unless the set has one.",
     .check = check_validation_sets},
    {.id = "validation.missing",
     .summary = "validation's files exist",
     .explain =
         "Every path of [validation] is looked up before any rank starts, so that a missing file "
         "does not end the job after the first validation.every steps.",
     .needs = Needs::kFiles,
     .check = check_validation_missing},
    {.id = "data.documents",
     .summary = "documents packed into sequences end with a known token",
     .explain = "With reset_position_ids several documents share a sequence: positions start again "
                "at 0 in each document, and attention stays inside it, as if it were a separate "
                "sequence. eod_token is the token that ends a document, and is the document's last "
                "token.",
     .check = check_documents},
    {.id = "data.eod_token",
     .summary = "the tokenizer has the token that ends documents",
     .explain =
         "A token's text, such as eod_token = \"<|endoftext|>\", is looked up among the tokens of "
         "data.tokenizer. A token's id, such as eod_token = 0, needs no tokenizer.",
     .needs = Needs::kFiles,
     .check = check_eod_name},
    {.id = "data.tokenizer",
     .summary = "the tokenizer exists and fits the model's vocabulary",
     .explain =
         "\"auto\" is the tokenizer in the model's folder; without one, a model that is trained "
         "from scratch reads bytes, and a model with weights causes a warning. \"bytes\" makes one "
         "token of each byte, so vocab_size must be 256 or more. Anything else is the path of a "
         "tokenizer.json, of a SentencePiece model, of a tekken.json, of a tiktoken file, or of a "
         "folder that contains one.",
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
    {.id = "data.source",
     .summary = "the sources of a mixture have a kind and a weight",
     .explain =
         "[[data.source]] is a table with path, kind, weight and epochs; without a kind, data.kind "
         "applies. Each sample of the job is drawn from one source. After any number of samples, "
         "the number drawn from a source differs by less than one from the source's share by "
         "weight. A source with epochs = N is left out after N passes; if every source has epochs, "
         "the job ends after the last pass. data.path and train.epochs are for data without "
         "sources.",
     .check = check_sources},
    {.id = "data.synthetic",
     .summary = "loaded weights are not trained on synthetic data (a warning)",
     .explain =
         "A plan without [data] trains on arithmetic progressions, which tests speed and "
         "memory. Loaded weights would lose what they have learned. The kind synthetic has no "
         "end, so train.epochs with it is an error.",
     .needs = Needs::kFiles,
     .check = check_synthetic},
    {.id = "data.token_dtype",
     .summary = "token files are wide enough for the vocabulary (a warning)",
     .explain =
         "A vocabulary of more than 65 536 entries does not fit 16 bits. If a file of 32-bit "
         "ids is read as 16-bit ids, each id becomes two tokens.",
     .check = check_token_dtype},
    {.id = "validation.patience",
     .summary = "patience needs validations, and steps = 0 needs data with an end",
     .explain =
         "patience = N ends training after N validations in a row without a new lowest loss, so it "
         "needs validation.every. steps = 0 validates on all data once, so the data must have an "
         "end; synthetic data have none.",
     .check = check_patience},
}};

}  // namespace

std::span<const Rule> data_rules() { return kRules; }

}  // namespace am::rules
