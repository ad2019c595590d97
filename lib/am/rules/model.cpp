// Rules on the model's config and weights. am::model reports most rules on the config, while it
// reads config.json.
#include <array>
#include <filesystem>
#include <utility>
#include <variant>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/formats/weight_files.h"
#include "am/layout/layout.h"
#include "am/model/quantization.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

// Reports an error if the model's folder has weights only in PyTorch's pickle format. The setting
// weights = "auto" does not load this format. Without this error, training would start from random
// weights.
void check_pickled(const RuleContext& context, Diagnostics& found) {
  const auto folder = folder_of(context.plan.resolve(context.plan.model.path));
  const auto files = formats::weight_files(folder);
  if (files.safetensors || files.pickled.empty()) return;
  found.error(
      "model.weights", context.plan.span("model.weights"),
      cat("weights = \"auto\" reads safetensors, but the only weights beside the config are in ",
          files.pickled),
      cat("set weights = \"", folder.string(),
          "\" to read them, or weights = \"none\" to begin with random values"));
}

void check_quantized(const RuleContext& context, Diagnostics& found) {
  if (context.model == nullptr) return;
  const std::string method = model::quantization_of(context.model->text);
  if (method.empty() || context.plan.model.weights == "none") return;
  found.add({"model.quantized", Severity::kNote, context.plan.span("model.path"),
             cat("the config describes weights that are quantised (", method,
                 "); predictions are for weights in model.dtype, and am-run cannot load quantised "
                 "weights"),
             "give dequantised weights, or set weights = \"none\""});
}

void check_weights(const RuleContext& context, Diagnostics& found) {
  const std::string& weights = context.plan.model.weights;
  if (weights == "auto") return check_pickled(context, found);
  if (weights == "none") return;
  const std::filesystem::path path = context.plan.resolve(weights);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return;
  found.error("model.weights", context.plan.span("model.weights"),
              cat(path.string(), ": no such file or folder"),
              "give a file with weights or a folder of such files, \"auto\" or \"none\"");
}

void warn_of_dropout(const RuleContext& context, Diagnostics& found) {
  if (context.model == nullptr || context.model->dropout <= 0.0) return;
  const model::ModelConfig& model = *context.model;
  found.warning("model.dropout", find_json_key(model.text, model.file, model.dropout_key),
                cat(model.dropout_key, " = ", model.dropout, ": am-run trains without dropout"),
                cat("set ", model.dropout_key, " = 0.0 in the config to remove this warning"));
}

// Returns the name of the first module of role kOther (a part that am-run does not support) in the
// model's layers for which `counts` is true, or an empty text if there is none.
template <typename Counts>
std::string other_part(const model::DecoderSpec& spec, Counts counts) {
  for (const model::LayerSpec& layer : spec.kinds) {
    for (const model::ModuleSpec& module : layer.modules) {
      if (module.role == model::Role::kOther && counts(module)) return module.name;
    }
  }
  return {};
}

// Reports an error if tp does not divide the heads or the groups of Mamba 2. Returns whether tp
// divides both.
bool check_mamba_heads(const RuleContext& context, Diagnostics& found) {
  const auto& mixer = context.model->mixer;
  const int64_t tp = context.layout->mesh.sizes().tp;
  const bool heads = mixer.has_value() && mixer->heads % tp != 0;
  if (!mixer.has_value() || (!heads && mixer->groups % tp == 0)) return true;
  const int64_t count = heads ? mixer->heads : mixer->groups;
  found.error("model.parts", context.plan.span("mesh.tp_size"),
              cat("tp_size = ", tp, " does not divide the ", count,
                  heads ? " heads of Mamba 2" : " groups of Mamba 2"),
              assignment("tp_size", nearest_values(divisors(count), tp)));
  return false;
}

// Reports an error if tp or cp is above 1 and the model's layers have modules of role kOther, which
// automesh cannot cut, except that the strategy megatron knows how tp cuts some (OtherCut).
// Vectors, for example norms of activations that tp cuts, prevent only tp. If there is no error,
// warns that predictions leave out the activations of the matrices.
void check_parts(const RuleContext& context, Diagnostics& found) {
  if (context.layout == nullptr || context.model == nullptr) return;
  const model::DecoderSpec& spec = context.layout->inventory.spec;
  const std::string matrix =
      other_part(spec, [](const model::ModuleSpec& module) { return module.in > 0; });
  const bool megatron = std::holds_alternative<config::MegatronConfig>(context.plan.strategy);
  std::string part = other_part(spec, [&](const model::ModuleSpec& module) {
    return !megatron || module.other_cut == model::OtherCut::kUnknown;
  });
  if (!part.empty() && !matrix.empty()) part = matrix;
  const mesh::MeshSizes& axes = context.layout->mesh.sizes();
  const auto subject = [&](const std::string& name) {
    return cat("layers of ", context.model->model_type, " have parts such as ", name);
  };
  const auto refuse = [&](const char* key, int64_t size, const std::string& name) {
    if (size == 1 || name.empty()) return;
    found.error("model.parts", context.plan.span(cat("mesh.", key)),
                cat(key, " = ", size, ", but ", subject(name), ", which automesh cannot cut"),
                cat(key, " = 1"));
  };
  refuse("tp_size", axes.tp, part);
  refuse("cp_size", axes.cp, matrix);
  if (matrix.empty() || axes.cp > 1 || (axes.tp > 1 && !part.empty())) return;
  if (axes.tp > 1 && !check_mamba_heads(context, found)) return;
  found.warning("model.parts", context.plan.span("model.path"),
                cat(subject(matrix),
                    ": their parameters are counted, but predictions of memory and time "
                    "leave out their activations"),
                "treat the predictions as lower bounds");
}

constexpr std::array<Rule, 14> kRules = {{
    {.id = "model.path",
     .summary = "model.path names a readable config.json",
     .explain =
         "Everything that is known about a model starts from its Hugging Face config.json: the "
         "parameters and their shapes, the heads that tensor parallelism must divide, the memory. "
         "`model.path` names that file or the folder that holds it, relative to the plan file, or "
         "is a name such as \"llama-3.1-8b\".\n\n"
         "No weights are needed to plan, and nothing is downloaded.",
     .check = nullptr},
    {.id = "model.key",
     .summary = "the config has the keys that define the model",
     .explain =
         "vocab_size, hidden_size, intermediate_size, num_hidden_layers and num_attention_heads "
         "must be there: transformers would fall back to the sizes of some 7B model, which is "
         "never what is meant. Keys such as num_key_value_heads, head_dim or rms_norm_eps may be "
         "absent; then the default of that model's configuration class in transformers applies.\n\n"
         "Each family's own names of these keys count, for example n_embd of gpt2. A rotary "
         "embedding of type llama3 or linear needs its factors too.",
     .check = nullptr},
    {.id = "model.type",
     .summary = "the config's values have the types of their keys",
     .explain = "A size must be an integer, a switch true or false. null counts as absent.\n\n"
                "The usual cause is a config that was edited by hand instead of written by "
                "save_pretrained().",
     .check = nullptr},
    {.id = "model.value",
     .summary = "the config's values are in range",
     .explain =
         "Sizes are positive and below limits that no real model reaches; below these limits, "
         "parameter and byte counts are exact integers.",
     .check = nullptr},
    {.id = "model.family",
     .summary = "model_type is a known family, or the config is of Llama's shape",
     .explain =
         "A family defines how a config becomes parameters, and how they are cut over "
         "tensor-parallel ranks. llama covers every model that took over Llama's config (Yi, "
         "SmolLM2, ...). A config of another model_type is planned as Llama, with a warning, if "
         "each of its keys is one of Llama's or known not to change a shape (token ids, dropout, "
         "constants, generation settings). A key that is not understood may mean experts, other "
         "attention or other norms, so the config is refused and the key named. A hidden_act other "
         "than silu is refused too, as are model types that differ from Llama although no key "
         "shows it.\n\n"
         "am-run refuses a config of another model_type, and the families that are only planned, "
         "with runtime.unsupported. A new family is one file in lib/am/model/families.",
     .check = nullptr},
    {.id = "model.text_part",
     .summary = "only the text part of a multimodal config is planned",
     .explain =
         "The configs of gemma3, paligemma, llava, llava_next, idefics3, smolvlm, mistral3, "
         "llama4, qwen3_5 and qwen3_5_moe hold a text_config of a known family. That part is "
         "planned; the vision tower and the projector are not counted. Keys that text_config "
         "leaves out have the defaults of the text model's configuration class, because "
         "transformers writes only the keys that differ from them.",
     .check = nullptr},
    {.id = "model.parts",
     .summary = "only known parts of layers are cut over tp and cp (a warning if tp and cp "
                "are 1)",
     .explain =
         "Some families that am-plan can plan, but am-run cannot train, have layers with parts "
         "that automesh has no model of: Mamba, linear attention, convolutions over the sequence, "
         "gates of attention's output, indexers of tokens. The parameters, gradients and optimizer "
         "states of these parts are counted exactly, and FLOPs include the products with their "
         "matrices. Their activations are not predicted, so predictions of memory and time are "
         "lower bounds; tp and cp are refused, because automesh does not know how to cut these "
         "parts. Only the strategy megatron cuts Mamba 2 over tp; tp_size must then divide the "
         "heads and the groups of Mamba 2.\n\n"
         "tp is also refused if only vectors are unknown, for example BitNet's norms before the "
         "output projections and the trained numbers of Apertus's activation: they are applied to "
         "activations that tp cuts.",
     .needs = Needs::kLayout,
     .check = check_parts},
    {.id = "model.experts",
     .summary = "num_experts_per_tok is at most num_experts",
     .explain = "num_experts_per_tok is at most num_experts (num_local_experts, "
                "num_experts or n_routed_experts, as the family spells it).",
     .check = nullptr},
    {.id = "model.heads",
     .summary = "heads, key/value heads and head size fit together",
     .explain =
         "num_key_value_heads divides num_attention_heads: each key/value head serves the same "
         "number of query heads. Without head_dim, num_attention_heads divides hidden_size. "
         "With a rotary embedding head_dim is even, because it rotates pairs of values.",
     .check = nullptr},
    {.id = "model.rope",
     .summary = "the rotary embedding's factors are consistent",
     .explain =
         "Both spellings are read: the old one (rope_theta beside rope_scaling) and the new one "
         "(rope_parameters). llama3 (Llama 3.1's scaling by wavelength) needs high_freq_factor "
         "above low_freq_factor.\n\n"
         "Planning does not depend on the embedding's kind. am-run computes default, linear, "
         "llama3, yarn and longrope and refuses other types (dynamic), because computing them as "
         "if they were default would train a different model.",
     .check = nullptr},
    {.id = "model.weights",
     .summary = "model.weights names weights that exist",
     .explain =
         "\"auto\" loads the *.safetensors beside the config when there are any and initialises "
         "the model otherwise; \"none\" always initialises; anything else is a path, relative to "
         "the plan, which must exist. A wrong path is an error, because training would otherwise "
         "start from random values. For the same reason \"auto\" refuses a folder with weights "
         "only in PyTorch's pickle format (pytorch_model.bin, *.pth); a path that names these "
         "weights loads them.",
     .needs = Needs::kFiles,
     .check = check_weights},
    {.id = "model.quantized",
     .summary = "weights of a quantised model are not loaded (reported as a note)",
     .explain =
         "A config.json with a quantization_config comes with weights that are codes (FP8, "
         "integers) and scales. The plan is for the model itself, in model.dtype. am-run and "
         "am-repl refuse to load such weights: a code is not the value that it represents. "
         "Dequantise them first (transformers' dequantize()).",
     .needs = Needs::kFiles,
     .check = check_quantized},
    {.id = "model.dropout",
     .summary = "dropout in the config is ignored (a warning)",
     .explain =
         "A dropout above 0, for example attention_dropout, resid_pdrop or hidden_dropout, causes "
         "a warning. am-run trains without dropout, as the pretraining of large models does, and "
         "predictions of memory and time leave its masks out. An export keeps the config as it is.",
     .needs = Needs::kFiles,
     .check = warn_of_dropout},
    {.id = "model.freeze_params",
     .summary =
         "every glob of freeze_params matches a parameter, and some parameters are left to train",
     .explain = "model.freeze_params lists globs over parameters' names, in which `*` also matches "
                "dots: [\"model.embed_tokens.*\", \"model.layers.0.*\"]. Frozen parameters are "
                "sharded and gathered as all others; they have no gradient and no optimizer state. "
                "Layers before the first trained one keep no activations, and backward stops "
                "before it reaches them.\n\n"
                "A glob that matches nothing would train parameters that were meant to stay "
                "frozen. A tied head has the embedding's name.",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> model_rules() { return kRules; }

}  // namespace am::rules
