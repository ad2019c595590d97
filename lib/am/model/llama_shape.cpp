#include "am/model/llama_shape.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "am/base/text.h"

namespace am::model {
namespace {

constexpr std::array<std::string_view, 5> kSizes = {
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"};

// Config keys that the reader of a Llama config reads and checks, in addition to the five sizes.
constexpr std::array<std::string_view, 22> kRead = {"model_type",
                                                    "num_key_value_heads",
                                                    "head_dim",
                                                    "max_position_embeddings",
                                                    "rms_norm_eps",
                                                    "initializer_range",
                                                    "hidden_act",
                                                    "tie_word_embeddings",
                                                    "attention_bias",
                                                    "mlp_bias",
                                                    "rope_theta",
                                                    "rope_scaling",
                                                    "rope_parameters",
                                                    "partial_rotary_factor",
                                                    "dtype",
                                                    "torch_dtype",
                                                    "layer_types",
                                                    "sliding_window",
                                                    "use_sliding_window",
                                                    "is_encoder_decoder",
                                                    "rope_type",
                                                    "original_max_position_embeddings"};

// Config keys that affect neither shapes nor the FLOPs of a step, for example metadata of the file,
// settings of text generation, constant factors and limits on logits.
constexpr std::array<std::string_view, 78> kNoShape = {
    "architectures", "auto_map", "transformers_version", "name_or_path", "tokenizer_class",
    "prefix", "use_cache", "pretraining_tp", "quantization_config", "gradient_checkpointing",
    "attn_implementation", "use_flash_attn", "num_logits_to_keep", "keys_to_ignore_at_inference",
    // Keys of transformers' class PretrainedConfig.
    "return_dict", "return_dict_in_generate", "output_attentions", "output_hidden_states",
    "output_scores", "torchscript", "use_bfloat16", "tf_legacy_loss", "pruned_heads",
    "chunk_size_feed_forward", "is_decoder", "id2label", "label2id", "num_labels", "problem_type",
    "finetuning_task", "task_specific_params", "begin_suppress_tokens", "suppress_tokens",
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
    "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
    "num_return_sequences", "remove_invalid_values", "exponential_decay_length_penalty",
    // Constant factors, limits and token texts.
    "attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling",
    "logit_scale", "scale_emb", "scale_depth", "dim_model_base", "initializer_cutoff_factor",
    "clip_qkv", "final_logit_softcapping", "attn_logit_softcapping", "logits_soft_cap",
    "query_pre_attn_scalar", "z_loss_coefficient", "rope_interleaved", "rope_interleave",
    "max_window_layers", "max_sequence_length", "model_max_length", "seq_length", "bos_token",
    "eos_token", "pad_token", "unk_token", "mask_token"};

// A boolean config key, and the value for which the layers equal Llama's.
struct Neutral {
  std::string_view key;
  bool value;
};
constexpr std::array<Neutral, 15> kNeutral = {{{"use_bias", false},
                                               {"bias", false},
                                               {"qkv_bias", false},
                                               {"add_bias_linear", false},
                                               {"add_qkv_bias", false},
                                               {"lm_head_bias", false},
                                               {"norm_bias", false},
                                               {"use_qk_norm", false},
                                               {"qk_norm", false},
                                               {"qk_layernorm", false},
                                               {"use_post_norm", false},
                                               {"add_cross_attention", false},
                                               {"tie_encoder_decoder", false},
                                               {"parallel_attn", false},
                                               {"use_parallel_residual", false}}};

// Values of model_type in transformers whose config keys are Llama's, but whose layers differ:
// norms without weights (olmo), LayerNorm (orion), or biases and fused projections (chatglm,
// baichuan, internlm2).
constexpr std::array<std::string_view, 5> kSilentlyOther = {"olmo", "orion", "chatglm", "baichuan",
                                                            "internlm2"};

template <typename List>
bool contains(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

bool is_token_or_dropout(std::string_view key) {
  for (const std::string_view end :
       {"_token_id", "_token_ids", "_token_index", "dropout", "_pdrop", "_dropout_prob"}) {
    if (ends_with(key, end)) return true;
  }
  return false;
}

// Whether a key with this value enables no feature: the value is null or an empty list.
bool says_nothing(const Json& value) {
  return value.is_null() || (value.is_array() && value.empty());
}

bool is_neutral(std::string_view key, const Json& value) {
  return std::any_of(kNeutral.begin(), kNeutral.end(),
                     [&](const Neutral& one) { return one.key == key && value == one.value; });
}

bool is_understood(const std::string& key, const Json& value) {
  return says_nothing(value) || starts_with(key, "_") || contains(kSizes, key) ||
         contains(kRead, key) || contains(kNoShape, key) || is_token_or_dropout(key) ||
         is_neutral(key, value);
}

std::vector<std::string> foreign_keys(const ConfigReader& reader) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : reader.items()) {
    if (!is_understood(key, value)) keys.push_back(key);
  }
  return keys;
}

// Returns the first entry of layer_types that is neither "full_attention" nor "sliding_attention",
// for example "conv". Returns an empty string if there is no such entry.
std::string other_layer_type(const ConfigReader& reader) {
  const Json& types = reader.raw("layer_types");
  if (!types.is_array()) return {};  // the reader of the key reports the wrong type
  for (const Json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") return type.dump();
  }
  return {};
}

std::string list_of(std::vector<std::string> keys) {
  constexpr size_t kShown = 8;
  const size_t more = keys.size() > kShown ? keys.size() - kShown : 0;
  keys.resize(keys.size() - more);
  return cat(join(keys, ", "), more > 0 ? cat(" and ", more, " more") : std::string());
}

}  // namespace

std::string why_not_llama(const ConfigReader& reader) {
  std::vector<std::string> missing;
  for (const std::string_view key : kSizes) {
    if (reader.raw(key).is_null()) missing.emplace_back(key);
  }
  if (!missing.empty()) return cat("it has no ", join(missing, ", "));
  if (reader.raw("is_encoder_decoder") == true) return "it is an encoder-decoder model";
  const std::vector<std::string> foreign = foreign_keys(reader);
  if (!foreign.empty()) {
    return cat("it has ", list_of(foreign),
               foreign.size() == 1 ? ", a key that Llama's config does not have"
                                   : ", keys that Llama's config does not have");
  }
  const Json& activation = reader.raw("hidden_act");
  if (activation.is_string() && activation != "silu" && activation != "swish") {
    return cat("hidden_act is ", activation.dump(), ", which Llama layers do not use");
  }
  const std::string type = other_layer_type(reader);
  if (!type.empty()) return cat("layer_types has ", type);
  const Json& model_type = reader.raw("model_type");
  if (model_type.is_string() && contains(kSilentlyOther, model_type.get<std::string>())) {
    return "its layers have other norms, biases or projections than Llama, although no key shows "
           "it";
  }
  return {};
}

}  // namespace am::model
