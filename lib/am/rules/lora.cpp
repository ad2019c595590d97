// Rules on low-rank adapters. Errors in lora.target_modules and lora.modules_to_save are found when
// the layout is built (layout/adapters.h).
#include <array>
#include <filesystem>
#include <variant>
#include <vector>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/layout/units.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

void note_without_rank(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  if (plan.lora.rank > 0) return;
  for (const char* key : {"lora.alpha", "lora.use_rslora", "lora.loraplus_lr_ratio", "lora.dropout",
                          "lora.target_modules", "lora.modules_to_save", "lora.use_dora",
                          "lora.quantize_base", "lora.weights", "lora.merge"}) {
    if (!config::is_chosen(plan, key)) continue;
    found.warning("lora.rank", plan.span(key),
                  cat(key, " has no effect: without lora.rank the whole model is trained"),
                  "set rank = 8 to add adapters, or remove [lora]");
    return;
  }
}

void check_weights(const RuleContext& context, Diagnostics& found) {
  const config::LoraSection& lora = context.plan.lora;
  if (lora.rank == 0 || lora.weights.empty()) return;
  const std::filesystem::path path = context.plan.resolve(lora.weights);
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = folder ? path / "adapter_model.safetensors" : path;
  if (std::filesystem::exists(file, ignored)) return;
  if (folder && std::filesystem::exists(path / "adapter_model.bin", ignored)) return;
  found.error("lora.weights", context.plan.span("lora.weights"),
              cat(file.string(), ": no such file"),
              "give a folder that holds adapter_model.safetensors or adapter_model.bin, or one of "
              "these files");
}

void check_dora(const RuleContext& context, Diagnostics& found) {
  const config::LoraSection& lora = context.plan.lora;
  if (lora.rank == 0 || !lora.use_dora || lora.dropout == 0.0) return;
  found.error("lora.use_dora", context.plan.span("lora.dropout"),
              cat("dropout = ", lora.dropout, " cannot be combined with use_dora"),
              "dropout = 0.0, or use_dora = false");
}

void check_quantize_base(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const char* key = "lora.quantize_base";
  if (plan.lora.rank == 0 || plan.lora.quantize_base == "none") return;
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy);
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  if (fsdp2 == nullptr && (megatron == nullptr || megatron->zero_dp_strategy < 3)) {
    found.error(
        key, plan.span(key),
        cat("quantize_base saves nothing with strategy.name = \"",
            config::strategy_name(plan.strategy), "\"",
            megatron == nullptr ? "" : cat(" and zero_dp_strategy = ", megatron->zero_dp_strategy),
            ": each rank holds all parameters whole from forward to backward"),
        cat("strategy.name = \"fsdp2\", which runs on one rank too",
            megatron == nullptr ? "" : ", or zero_dp_strategy = 3",
            ", or quantize_base = \"none\""));
    return;
  }
  const std::vector<model::Unit> layers = {{model::UnitKind::kLayer, "", {}, 0},
                                           {model::UnitKind::kLayer, "", {}, 1}};
  if (layout::reshard_after_forward(plan.strategy, layers, plan.mesh.pp_size).front()) return;
  found.warning(key, plan.span(key),
                "without reshard_after_forward the layers stay gathered and dequantized from "
                "forward to backward: quantize_base makes only the stored shards and the "
                "communication smaller",
                "strategy.reshard_after_forward = true frees each layer after its forward");
}

constexpr std::array<Rule, 6> kRules = {{
    {.id = "lora.rank",
     .summary = "keys of [lora] are given only with a rank (a warning)",
     .explain =
         "[lora] trains two narrow matrices A and B for each target module's W, so that the module "
         "computes y = W x + alpha / rank * B (A x). The model's own parameters are frozen, except "
         "those of modules_to_save. `rank` is the width of A and B. Without it, or with rank = 0, "
         "there are no adapters: the other keys have no effect and the whole model is trained.",
     .check = note_without_rank},
    {.id = "lora.target_modules",
     .summary = "every target of [lora] matches linear layers that can have an adapter",
     .explain =
         "lora.target_modules lists modules as PEFT does: \"q_proj\" is every module whose name is "
         "that or ends with \".q_proj\"; \"all-linear\" is every linear layer but the head. A text "
         "with *, ?, [..] or {..} is a glob over whole names, in which `*` also matches dots: "
         "\"model.layers.[0-3].self_attn.*_proj\".\n\n"
         "Targets are linear layers that process every token: projections of attention, the dense "
         "feed-forward, shared experts, the head. Routed experts, routers, norms, embeddings, and "
         "a head that is tied to the embedding cannot have an adapter, and a glob skips them. A "
         "target that matches no other module is an error, because otherwise nothing would report "
         "that the adapter is missing.\n\n"
         "A fused matrix (phi3's qkv_proj, gpt2's c_attn) has one A and one B, as in PEFT.",
     .check = nullptr},
    {.id = "lora.modules_to_save",
     .summary = "every entry of lora.modules_to_save matches a module with parameters",
     .explain =
         "lora.modules_to_save lists modules whose own parameters are trained beside the adapters, "
         "named as in target_modules: \"lm_head\", or a glob over whole names. An entry that "
         "matches no module is an error, and so is a module that has an adapter. A head that is "
         "tied to the embedding has no weight of its own: name the embedding.",
     .check = nullptr},
    {.id = "lora.use_dora",
     .summary = "lora.use_dora is not combined with lora.dropout",
     .explain =
         "DoRA scales a module's whole output, the sum of W x and the adapter's part, by a trained "
         "magnitude divided by the norm of the combined weight. With dropout only the adapter's "
         "part would have dropped inputs, and the scaled sum would no longer be the product with "
         "the combined weight. PEFT uses another formula in this case, which automesh does not "
         "support.",
     .check = check_dora},
    {.id = "lora.quantize_base",
     .summary = "lora.quantize_base needs a strategy that frees parameters, and rows of whole "
                "blocks",
     .explain =
         "With quantize_base = \"nf4\" the frozen matrices of the decoder layers are stored in "
         "four bits a value, with a magnitude for each block of 64 neighbouring values of a row "
         "(QLoRA). A unit's matrices are dequantized when it computes and freed after it, which "
         "fsdp2 and megatron_fsdp's level 3 do, on one rank too; other strategies keep all "
         "parameters gathered. With reshard_after_forward = false, which is the default of fsdp2 "
         "in a pipeline, layers stay dequantized until backward (a warning). A row that a rank "
         "stores consists of whole blocks, so that every layout trains with the same values.",
     .check = check_quantize_base},
    {.id = "lora.weights",
     .summary = "lora.weights names an adapter that exists",
     .explain =
         "lora.weights is a folder with adapter_model.safetensors or adapter_model.bin (and "
         "adapter_config.json), as PEFT's save_pretrained and am-run's export write it, or the "
         "file with the weights itself. Training begins with these adapters. Their rank and target "
         "modules must be those of the plan. A wrong path is an error, because training would "
         "otherwise begin with new adapters.",
     .needs = Needs::kFiles,
     .check = check_weights},
}};

}  // namespace

std::span<const Rule> lora_rules() { return kRules; }

}  // namespace am::rules
