// Defines the keys of the plan file's section [lora].
#include "am/config/field_builder.h"

namespace am::config {

void add_lora_fields(std::vector<FieldSpec>& out) {
  FieldBuilder lora(
      "lora", [](auto& plan) -> auto& { return plan.lora; }, out);
  using S = LoraSection;
  lora.add("rank", &S::rank, Integer{0, 1 << 16},
           "Width of the adapters: y = W x + alpha / rank * B (A x), where A has rank rows and B "
           "has rank columns. 0: no adapters; the model itself is trained.")
      .also = {"r", "lora_rank", "lora_r"};
  lora.add("alpha", &S::alpha, Number{},
           "Scale of the adapters: their output is multiplied by alpha / rank.")
      .also = {"lora_alpha"};
  lora.add("use_rslora", &S::use_rslora, Boolean{},
           "Multiply the adapters' output by alpha / sqrt(rank) instead (rsLoRA).");
  lora.add("loraplus_lr_ratio", &S::lr_ratio, Number{},
           "Ratio of the learning rate of the matrices B to that of the matrices A (LoRA+).");
  lora.add("dropout", &S::dropout, Number{0.0, 1.0},
           "Probability with which an element of an adapter's input is dropped in training. The "
           "random numbers depend on train.seed, step, module, token and column, but not on the "
           "layout.")
      .also = {"lora_dropout"};
  lora.add("target_modules", &S::target_modules, Texts{},
           "Linear layers that get an adapter, with PEFT's meaning: \"q_proj\" matches every "
           "module whose name ends with it, \"all-linear\" every linear layer but the head. Or a "
           "glob over whole names: \"model.layers.[0-3].self_attn.*\". Routed experts, routers, "
           "norms and embeddings never get one.");
  lora.add("modules_to_save", &S::modules_to_save, Texts{},
           "Modules that are trained in full beside the adapters, named as in target_modules, for "
           "example [\"embed_tokens\", \"lm_head\"]. Adapter files hold their weights too, as "
           "PEFT's do.");
  lora.add(
      "use_dora", &S::use_dora, Boolean{},
      "Train a magnitude for each output of a target module too (DoRA): y = m / |W + s B A| "
      "* (W + s B A) x, where |.| is the 2-norm of each output's row, a constant in backward.");
  lora.add("quantize_base", &S::quantize_base, Choice{{"none", "nf4"}},
           "Storage of the frozen matrices of the decoder layers. nf4 is QLoRA: four bits per "
           "value and one float32 scale per 64 values, 4.5 bits in all. A unit's matrices have "
           "the dtype of the computation while they are gathered.");
  lora.add("weights", &S::weights, Text{Text::Empty::kAllowed, "path"},
           "Adapter of PEFT or am-run from which training starts: its folder, or its "
           "adapter_model.safetensors or adapter_model.bin. Empty: a new adapter, which at first "
           "does not change the "
           "model's output.")
      .is_path = is_any_path;
  lora.add("merge", &S::merge, Boolean{},
           "If true, checkpoint.export = \"hf\" writes the model with the adapters merged into its "
           "weights, instead of the adapters in PEFT's format.");
}

}  // namespace am::config
