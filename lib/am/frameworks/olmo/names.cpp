// Maps tensor names of OLMo-core 3.0 to those of the Hugging Face hub, as OLMo-core's own
// conversion does (olmo_core/nn/hf/convert.py). Models with experts are not supported, because
// OLMo-core stores the experts' matrices transposed.
#include "am/frameworks/name_map.h"

namespace am::frameworks {

namespace {

// Model types with norms before attention and feed-forward (kBefore), after them (kBehind), or
// before and after them (kBoth). OLMo-core uses the same names for the norms of kBefore and of
// kBehind; the hub uses different names.
constexpr std::string_view kBefore = "llama mistral qwen2 qwen3";
constexpr std::string_view kBehind = "olmo2 olmo3";
constexpr std::string_view kBoth = "gemma3_text";

}  // namespace

const NameTable& olmo_table() {
  static const NameTable kTable = {
      .format = "olmo",
      .framework = "OLMo-core",
      .types = "llama mistral qwen2 qwen3 olmo2 olmo3 gemma3_text",
      .rows =
          {
              {"model.embed_tokens.weight", "embeddings.weight", Rows::kVocabulary},
              {"model.layers.#.self_attn.q_proj.weight", "blocks.#.attention.w_q.weight"},
              {"model.layers.#.self_attn.k_proj.weight", "blocks.#.attention.w_k.weight"},
              {"model.layers.#.self_attn.v_proj.weight", "blocks.#.attention.w_v.weight"},
              {"model.layers.#.self_attn.o_proj.weight", "blocks.#.attention.w_out.weight"},
              {"model.layers.#.self_attn.q_proj.bias", "blocks.#.attention.w_q.bias"},
              {"model.layers.#.self_attn.k_proj.bias", "blocks.#.attention.w_k.bias"},
              {"model.layers.#.self_attn.v_proj.bias", "blocks.#.attention.w_v.bias"},
              {"model.layers.#.self_attn.o_proj.bias", "blocks.#.attention.w_out.bias"},
              {"model.layers.#.self_attn.q_norm.weight", "blocks.#.attention.q_norm.weight"},
              {"model.layers.#.self_attn.k_norm.weight", "blocks.#.attention.k_norm.weight"},
              {"model.layers.#.mlp.gate_proj.weight", "blocks.#.feed_forward.w1.weight"},
              {"model.layers.#.mlp.up_proj.weight", "blocks.#.feed_forward.w3.weight"},
              {"model.layers.#.mlp.down_proj.weight", "blocks.#.feed_forward.w2.weight"},
              {"model.layers.#.input_layernorm.weight", "blocks.#.attention_norm.weight",
               Rows::kAll, kBefore},
              {"model.layers.#.post_attention_layernorm.weight",
               "blocks.#.feed_forward_norm.weight", Rows::kAll, kBefore},
              {"model.layers.#.post_attention_layernorm.weight", "blocks.#.attention_norm.weight",
               Rows::kAll, kBehind},
              {"model.layers.#.post_feedforward_layernorm.weight",
               "blocks.#.feed_forward_norm.weight", Rows::kAll, kBehind},
              {"model.layers.#.input_layernorm.weight", "blocks.#.attention_norm.weight",
               Rows::kAll, kBoth},
              {"model.layers.#.post_attention_layernorm.weight",
               "blocks.#.post_attention_norm.weight", Rows::kAll, kBoth},
              {"model.layers.#.pre_feedforward_layernorm.weight",
               "blocks.#.feed_forward_norm.weight", Rows::kAll, kBoth},
              {"model.layers.#.post_feedforward_layernorm.weight",
               "blocks.#.post_feed_forward_norm.weight", Rows::kAll, kBoth},
              {"model.norm.weight", "lm_head.norm.weight"},
              {"lm_head.weight", "lm_head.w_out.weight", Rows::kVocabulary},
          },
  };
  return kTable;
}

}  // namespace am::frameworks
