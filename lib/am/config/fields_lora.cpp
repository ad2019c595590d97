// Keys of [lora].
#include "am/config/field_builder.h"

namespace am::config {

void add_lora_fields(std::vector<FieldSpec>& out) {
  FieldBuilder lora(
      "lora", [](auto& plan) -> auto& { return plan.lora; }, out);
  using S = LoraSection;
  lora.add("rank", &S::rank, Integer{0, 1 << 16},
           "Width of the adapters: y = W x + alpha / rank * B (A x), where A is rank rows and B "
           "rank columns. 0: none, and the model itself is trained.")
      .also = {"r", "lora_rank", "lora_r"};
  lora.add("alpha", &S::alpha, Number{}, "alpha / rank is the factor of what adapters add.")
      .also = {"lora_alpha"};
  lora.add("dropout", &S::dropout, Number{0.0, 1.0},
           "Part of an adapter's input that is dropped in training, drawn by train.seed, the step, "
           "the module, the token and the column: the same under every layout.")
      .also = {"lora_dropout"};
  lora.add(
      "target_modules", &S::target_modules, Texts{},
      "Which linear layers have an adapter, as PEFT reads it: \"q_proj\" is every module whose "
      "name ends with it, \"all-linear\" all but the head; or a glob over whole names, "
      "\"model.layers.[0-3].self_attn.*\". Experts, routers, norms and embeddings have none.");
  lora.add("weights", &S::weights, Text{Text::Empty::kAllowed, "path"},
           "An adapter that PEFT or am-run wrote, to begin with: its folder, or its "
           "adapter_model.safetensors. Empty: a new one, which changes nothing at first.")
      .is_path = is_any_path;
  lora.add(
      "merge", &S::merge, Boolean{},
      "checkpoint.export = \"hf\" writes the model with its adapters added to its weights, and "
      "not the adapters in PEFT's format.");
}

}  // namespace am::config
