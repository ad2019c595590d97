// Rules on the model's config, which am::model reports while it reads, and on its weights.
#include <array>
#include <filesystem>

#include "am/base/text.h"
#include "am/planner/rules/catalogue.h"

namespace am::planner {
namespace {

void check_weights(const RuleContext& context, Diagnostics& found) {
  const std::string& weights = context.plan.model.weights;
  if (weights == "auto" || weights == "none") return;
  const std::filesystem::path path = context.plan.resolve(weights);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return;
  found.error("model.weights", context.plan.span("model.weights"),
              cat(path.string(), ": no such file or folder"),
              "give a safetensors file or a folder of them, \"auto\" or \"none\"");
}

constexpr std::array<Rule, 9> kRules = {{
    {.id = "model.path",
     .summary = "model.path leads to a readable config.json",
     .explain =
         "Everything that is known about a model starts from its Hugging Face config.json: the "
         "parameters and their shapes, the heads that tensor parallelism must divide, the memory. "
         "`model.path` names that file or the folder that holds it, relative to the plan file.\n\n"
         "No weights are needed to plan, and nothing is downloaded.",
     .check = nullptr},
    {.id = "model.key",
     .summary = "the config has the keys that define the model",
     .explain =
         "vocab_size, hidden_size, intermediate_size, num_hidden_layers and num_attention_heads "
         "must be there: transformers would fall back to the sizes of some 7B model, which is "
         "never "
         "what is meant. Keys such as num_key_value_heads, head_dim or rms_norm_eps may be absent; "
         "then the default of that model's configuration class in transformers holds.\n\n"
         "A rotary embedding of type llama3 or linear needs its factors too.",
     .check = nullptr},
    {.id = "model.type",
     .summary = "the config's values are of the kind that their keys want",
     .explain =
         "A size must be an integer, a switch true or false. null counts as absent.\n\n"
         "Configs are written by save_pretrained(); one that was edited by hand is the usual "
         "cause.",
     .check = nullptr},
    {.id = "model.value",
     .summary = "the config's values are in range",
     .explain = "Sizes are positive and below limits that no real model reaches; within them all "
                "parameter and byte counts are exact integers.",
     .check = nullptr},
    {.id = "model.family",
     .summary = "model_type is a known family",
     .explain =
         "A family knows how a config becomes parameters and how they are cut over tensor-parallel "
         "ranks. llama covers every model that took over Llama's config (Yi, SmolLM2, ...); then "
         "there are mistral, qwen2 (also Qwen2.5) and qwen3 (dense).\n\n"
         "A new family is one file in lib/am/model/families.",
     .check = nullptr},
    {.id = "model.heads",
     .summary = "heads, key/value heads and head size fit together",
     .explain =
         "num_key_value_heads divides num_attention_heads: each key/value head serves the same "
         "number of query heads. Without head_dim, num_attention_heads divides hidden_size. "
         "head_dim is even, as the rotary embedding turns pairs of values.",
     .check = nullptr},
    {.id = "model.rope",
     .summary = "the rotary embedding is one of the understood types",
     .explain =
         "Understood are default, linear (positions divided by a factor) and llama3 (Llama 3.1's "
         "scaling by wavelength), in the old spelling (rope_theta beside rope_scaling) and in the "
         "new one (rope_parameters). yarn, dynamic and longrope change the mathematics; computing "
         "them as if they were default would train a different model.",
     .check = nullptr},
    {.id = "model.activation",
     .summary = "hidden_act is silu",
     .explain = "These families gate their feed-forward layer with SiLU (SwiGLU). A config with "
                "another activation belongs to a model that is not covered.",
     .check = nullptr},
    {.id = "model.weights",
     .summary = "model.weights leads to weights that exist",
     .explain =
         "\"auto\" loads the *.safetensors beside the config when there are any and initialises "
         "the "
         "model otherwise; \"none\" always initialises; anything else is a path, relative to the "
         "plan, which must exist. A wrong path must not turn into a freshly initialised model.",
     .check = check_weights},
}};

}  // namespace

std::span<const Rule> model_rules() { return kRules; }

}  // namespace am::planner
