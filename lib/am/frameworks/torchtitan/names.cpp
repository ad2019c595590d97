// Maps tensor names of torchtitan 0.2.1 to those of the Hugging Face hub, as torchtitan's own
// adapters do (torchtitan/models/*/model/state_dict_adapter.py). In torchtitan's llama, the two
// rows of a rotary pair are adjacent. The hub stores the first rows of all pairs of a head, then
// the second rows. torchtitan's other models have the hub's order.
#include "am/frameworks/name_map.h"

namespace am::frameworks {

namespace {

constexpr std::string_view kPairs = "llama mistral";
constexpr std::string_view kHalves = "qwen3 qwen3_moe";
constexpr std::string_view kLatent = "deepseek_v3";

}  // namespace

const NameTable& torchtitan_table() {
  static const NameTable kTable = {
      .format = "torchtitan",
      .framework = "torchtitan",
      .types = "llama mistral qwen3 qwen3_moe deepseek_v3",
      .rows =
          {
              {"model.embed_tokens.weight", "tok_embeddings.weight"},
              {"model.layers.#.self_attn.q_proj.weight", "layers.#.attention.wq.weight",
               Rows::kQueryPairs, kPairs},
              {"model.layers.#.self_attn.k_proj.weight", "layers.#.attention.wk.weight",
               Rows::kKeyPairs, kPairs},
              {"model.layers.#.self_attn.q_proj.weight", "layers.#.attention.wq.weight", Rows::kAll,
               "qwen3 qwen3_moe deepseek_v3"},
              {"model.layers.#.self_attn.k_proj.weight", "layers.#.attention.wk.weight", Rows::kAll,
               kHalves},
              {"model.layers.#.self_attn.v_proj.weight", "layers.#.attention.wv.weight"},
              {"model.layers.#.self_attn.o_proj.weight", "layers.#.attention.wo.weight"},
              {"model.layers.#.self_attn.q_norm.weight", "layers.#.attention.q_norm.weight",
               Rows::kAll, kHalves},
              {"model.layers.#.self_attn.k_norm.weight", "layers.#.attention.k_norm.weight",
               Rows::kAll, kHalves},
              {"model.layers.#.self_attn.q_a_proj.weight", "layers.#.attention.wq_a.weight",
               Rows::kAll, kLatent},
              {"model.layers.#.self_attn.q_a_layernorm.weight", "layers.#.attention.q_norm.weight",
               Rows::kAll, kLatent},
              {"model.layers.#.self_attn.q_b_proj.weight", "layers.#.attention.wq_b.weight",
               Rows::kAll, kLatent},
              {"model.layers.#.self_attn.kv_a_proj_with_mqa.weight",
               "layers.#.attention.wkv_a.weight", Rows::kAll, kLatent},
              {"model.layers.#.self_attn.kv_a_layernorm.weight",
               "layers.#.attention.kv_norm.weight", Rows::kAll, kLatent},
              {"model.layers.#.self_attn.kv_b_proj.weight", "layers.#.attention.wkv_b.weight",
               Rows::kAll, kLatent},
              {"model.layers.#.mlp.gate_proj.weight", "layers.#.feed_forward.w1.weight"},
              {"model.layers.#.mlp.up_proj.weight", "layers.#.feed_forward.w3.weight"},
              {"model.layers.#.mlp.down_proj.weight", "layers.#.feed_forward.w2.weight"},
              {"model.layers.#.mlp.gate.weight", "layers.#.moe.router.gate.weight"},
              {"model.layers.#.mlp.experts.#.gate_proj.weight", "layers.#.moe.experts.@.w1"},
              {"model.layers.#.mlp.experts.#.up_proj.weight", "layers.#.moe.experts.@.w3"},
              {"model.layers.#.mlp.experts.#.down_proj.weight", "layers.#.moe.experts.@.w2"},
              {"model.layers.#.mlp.gate.e_score_correction_bias", "layers.#.moe.expert_bias",
               Rows::kAll, kLatent},
              {"model.layers.#.mlp.shared_experts.gate_proj.weight",
               "layers.#.moe.shared_experts.w1.weight", Rows::kAll, kLatent},
              {"model.layers.#.mlp.shared_experts.up_proj.weight",
               "layers.#.moe.shared_experts.w3.weight", Rows::kAll, kLatent},
              {"model.layers.#.mlp.shared_experts.down_proj.weight",
               "layers.#.moe.shared_experts.w2.weight", Rows::kAll, kLatent},
              {"model.layers.#.input_layernorm.weight", "layers.#.attention_norm.weight"},
              {"model.layers.#.post_attention_layernorm.weight", "layers.#.ffn_norm.weight"},
              {"model.norm.weight", "norm.weight"},
              {"lm_head.weight", "output.weight"},
          },
      // States that balance the load of the experts.
      .trainers = {"layers.#.moe.expert_bias", "layers.#.moe.tokens_per_expert"},
  };
  return kTable;
}

}  // namespace am::frameworks
