// Rules on tensor parallelism. The code that reads a TP plan reports the errors in the plan's text
// (layout/tp_selection.cpp, model/tp_check.cpp).
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <variant>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

// Whether every tp rank has whole key heads of attention. If tp is a multiple of the number of key
// heads, neighbouring ranks share a key head. Sharing is not possible for a fused projection that
// stores each key head with its query heads.
bool hands_out_key_heads(const model::AttentionSpec& attention, int64_t tp) {
  const bool shared =
      attention.fused != model::AttentionSpec::Fused::kByKeyHead && tp % attention.key_heads == 0;
  return attention.key_heads % tp == 0 || shared;
}

bool hands_out_heads(const model::AttentionSpec& attention, int64_t tp) {
  return attention.heads % tp == 0 && hands_out_key_heads(attention, tp);
}

const model::ConfigKeys& keys_of(const RuleContext& context) {
  return model::family_of(*context.model).keys;
}

// Returns the config key that contains the number of key heads. Families without this key have one
// key head per query head.
std::string_view key_heads_key(const RuleContext& context) {
  const model::ConfigKeys& keys = keys_of(context);
  return keys.key_value_heads.empty() ? keys.heads : keys.key_value_heads;
}

bool gives_queries(model::Role role) {
  return role == model::Role::kQuery || role == model::Role::kQueryUp || role == model::Role::kQkv;
}

// Returns the attention of each kind of layer; empty if tp cuts no heads.
std::vector<const model::AttentionSpec*> cut_attentions(const RuleContext& context) {
  std::vector<const model::AttentionSpec*> found;
  if (layer_of_cut_heads(context) == nullptr) return found;
  for (const model::LayerSpec& layer : context.layout->inventory.spec.kinds) {
    const bool attends =
        std::any_of(layer.modules.begin(), layer.modules.end(),
                    [](const model::ModuleSpec& module) { return gives_queries(module.role); });
    if (attends) found.push_back(&layer.attention);
  }
  return found;
}

// Whether tp satisfies the rules on attention heads and on the world size: every rank must have
// whole heads, and tp * cp * pp must divide the world size.
bool is_legal_tp(const RuleContext& context, int64_t tp) {
  if (context.mesh != nullptr) {
    const int64_t replica = tp * context.axes->cp * context.axes->pp;
    if (context.mesh->world_size() % replica != 0) return false;
  }
  const auto attentions = cut_attentions(context);
  return std::all_of(attentions.begin(), attentions.end(),
                     [&](const model::AttentionSpec* each) { return hands_out_heads(*each, tp); });
}

void check_heads(const RuleContext& context, Diagnostics& found) {
  const model::LayerSpec* layer = layer_of_cut_heads(context);
  if (context.axes == nullptr || layer == nullptr) return;
  const int64_t tp = context.axes->tp;
  const int64_t heads = layer->attention.heads;
  if (heads % tp == 0) return;
  found.error("tp.heads", context.plan.span("mesh.tp_size"),
              cat("tp_size = ", tp, " does not divide ", keys_of(context).heads, " = ", heads),
              tp_sizes_help(context, heads));
}

void check_kv_heads(const RuleContext& context, Diagnostics& found) {
  if (context.axes == nullptr) return;
  const int64_t tp = context.axes->tp;
  const auto attentions = cut_attentions(context);
  const auto bad = std::find_if(
      attentions.begin(), attentions.end(),
      [&](const model::AttentionSpec* each) { return !hands_out_key_heads(*each, tp); });
  if (bad == attentions.end()) return;
  const model::AttentionSpec& attention = **bad;
  const bool together = attention.fused == model::AttentionSpec::Fused::kByKeyHead;
  found.error(
      "tp.kv_heads", context.plan.span("mesh.tp_size"),
      cat("tp_size = ", tp, " does not divide ", key_heads_key(context), " = ", attention.key_heads,
          together ? ", which are stored with their query heads in one matrix"
                   : ", and is not a multiple of it"),
      tp_sizes_help(context, attention.heads));
}

// Whether tp shards any parameter along a dim of this length.
bool cuts(const RuleContext& context, int64_t length) {
  if (context.layout == nullptr) return false;
  const auto& parameters = context.layout->parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const layout::ParameterLayout& parameter) {
                       return parameter.tp_dim.has_value() &&
                              parameter.shape[static_cast<size_t>(*parameter.tp_dim)] == length;
                     });
}

// Warns if tp does not divide the length of a dim. Uneven shards are legal: the last ranks have
// smaller or empty shards, and collectives pad them. Attention heads have a separate rule, because
// attention cannot compute part of a head.
void warn_uneven(const RuleContext& context, const char* rule, std::string_view key, int64_t length,
                 Diagnostics& found) {
  const int64_t tp = context.axes->tp;
  if (length % tp == 0) return;
  const int64_t piece = (length + tp - 1) / tp;
  const int64_t last = std::max<int64_t>(0, length - piece * (tp - 1));
  std::vector<std::string> ways;
  if (std::string sizes = tp_sizes_help(context, length); !sizes.empty()) {
    ways.push_back(std::move(sizes));
  }
  ways.push_back(
      cat(assignment(std::string(key), nearest_multiples(tp, length)), " in the model's config"));
  found.warning(
      rule, context.plan.span("mesh.tp_size"),
      cat("tp_size = ", tp, " does not divide ", key, " = ", length, ": pieces of ", piece,
          ", and ", last, " on the last rank (", piece * tp - length, " of padding)"),
      join(ways, "; or "));
}

void check_ffn(const RuleContext& context, Diagnostics& found) {
  if (context.axes == nullptr || context.model == nullptr) return;
  // The projections gate and up may be one tensor with twice the width.
  const auto warn = [&](std::string_view key, int64_t width) {
    if (!cuts(context, width) && !cuts(context, 2 * width)) return;
    warn_uneven(context, "tp.ffn", key, width, found);
  };
  warn(keys_of(context).intermediate_size, context.model->intermediate_size);
  if (!context.model->moe.has_value()) return;
  const int64_t shared = context.model->moe->shared_width;
  if (shared != context.model->intermediate_size) warn("the shared experts' width", shared);
}

void check_vocabulary(const RuleContext& context, Diagnostics& found) {
  if (context.axes == nullptr || context.model == nullptr) return;
  if (!cuts(context, context.model->vocab_size)) return;
  warn_uneven(context, "tp.vocab", "vocab_size", context.model->vocab_size, found);
}

void check_hidden(const RuleContext& context, Diagnostics& found) {
  if (context.axes == nullptr || context.model == nullptr) return;
  const int64_t heads = context.model->num_attention_heads * context.model->head_dim;
  const int64_t hidden = context.model->hidden_size;
  // The input dim of o_proj often has the length hidden_size too, but it is sharded by heads, which
  // the rule "tp.heads" checks.
  if (!cuts(context, hidden)) return;
  if (hidden == heads && layer_of_cut_heads(context) != nullptr) return;
  warn_uneven(context, "tp.hidden", keys_of(context).hidden_size, hidden, found);
}

bool sequence_parallel(const RuleContext& context) {
  return config::sequence_parallel(context.plan.strategy);
}

void check_idle_sequence(const RuleContext& context, Diagnostics& found) {
  if (context.axes == nullptr || context.axes->tp > 1 || !sequence_parallel(context)) return;
  if (!context.plan.given("strategy.sequence_parallel")) return;
  found.warning("tp.sequence", context.plan.span("strategy.sequence_parallel"),
                "sequence_parallel = true changes nothing: tp_size = 1",
                "tp_size = 2 or more, or sequence_parallel = false");
}

constexpr std::array<Rule, 12> kRules = {{
    {.id = "tp.heads",
     .summary = "tp_size divides num_attention_heads",
     .explain =
         "Attention is computed head by head, and a tensor-parallel rank computes some of the "
         "heads. q_proj is cut by rows into tp_size parts, and a part must hold whole heads.\n\n"
         "The rule does not apply to a tensor-parallel plan that leaves q_proj, k_proj and v_proj "
         "whole.",
     .needs = Needs::kLayout,
     .check = check_heads},
    {.id = "tp.kv_heads",
     .summary = "tp_size divides num_key_value_heads, or is a multiple of it",
     .explain =
         "With grouped-query attention there are fewer key/value heads than query heads, and each "
         "rank needs the key/value heads of its own query heads. Heads are not split. With more "
         "ranks than key/value heads, neighbouring ranks hold the same head and sum its gradient: "
         "with 8 ranks and 2 heads, 4 ranks hold each head.\n\n"
         "Where one matrix holds each key/value head together with its query heads (falcon's new "
         "decoder), the groups are not split, and tp_size must divide num_key_value_heads.",
     .needs = Needs::kLayout,
     .check = check_kv_heads},
    {.id = "tp.ffn",
     .summary = "tp_size divides intermediate_size (a warning)",
     .explain =
         "gate_proj and up_proj are cut by rows, down_proj by columns. If tp_size does not divide "
         "the width, the last ranks get a smaller piece or none: the result is correct, the ranks "
         "with full pieces determine the time, and matrices of odd sizes are slow. Megatron "
         "refuses it; torch's DTensor, and with it torchtitan and NeMo AutoModel, pads.",
     .needs = Needs::kLayout,
     .check = check_ffn},
    {.id = "tp.vocab",
     .summary = "tp_size divides vocab_size (a warning)",
     .explain = "The embedding and the head are cut over the vocabulary. Many vocabulary sizes "
                "have few divisors: GPT-2's 50257 is 29 * 1733. Uneven pieces are padded for the "
                "collectives. Megatron pads the table itself, to a multiple of 128 * tp_size. A "
                "model that is trained from scratch is better off with a vocab_size rounded up in "
                "its config.",
     .needs = Needs::kLayout,
     .check = check_vocabulary},
    {.id = "tp.hidden",
     .summary = "tp_size divides hidden_size, if the TP plan cuts along it (a warning)",
     .explain =
         "Most TP plans cut heads, feed-forward and vocabulary and leave the hidden state "
         "whole. A TP plan may cut a projection along the hidden size; uneven pieces then cost "
         "time and padding.",
     .needs = Needs::kLayout,
     .check = check_hidden},
    {.id = "tp.qk_norm",
     .summary =
         "norms over query and key heads sum their gradients over tp (a note of `am-plan tp`)",
     .explain =
         "q_norm and k_norm each have one weight for all heads, but a tensor-parallel rank "
         "normalises only its own heads, so each rank computes only a part of the gradient. "
         "automesh sums the parts over tp whether or not the plan has a style for the norms. "
         "Frameworks that leave out this sum let the replicas drift apart, without an error.",
     .check = nullptr},
    {.id = "tp.plan",
     .summary = "strategy.tp_plan names a tensor-parallel plan that can be read",
     .explain =
         "tp_plan accepts \"auto\" (the family's own plan), an inline table of pattern = style, a "
         "TOML file with such a table (at its top level, or in a section [tp_plan]), a registered "
         "family's name, or \"libmine.so:symbol\": a C function without arguments that returns the "
         "table as TOML text (see tp.plugin).\n\n"
         "Paths are relative to the plan. `am-plan tp PLAN` shows the plan that is used, and what "
         "each line matches.",
     .check = nullptr},
    {.id = "tp.plugin",
     .summary = "a plan loads a plugin only where that is allowed",
     .explain =
         "Loading a library runs its code with the user's rights. A plan often comes from another "
         "person, so \"libmine.so:symbol\" is loaded only with --allow-plugins on the command "
         "line, or AM_ALLOW_PLUGINS=1 in the environment; no file can allow it. A plan in a "
         "checkpoint or a run folder is data and never loads a plugin.",
     .check = nullptr},
    {.id = "tp.sequence",
     .summary = "sequence_parallel = true is set only with tp_size > 1 (a warning)",
     .explain =
         "Sequence parallelism cuts the hidden states over the tensor-parallel ranks between the "
         "layers that are cut. With tp_size = 1 there is nothing to cut over.",
     .check = check_idle_sequence},
    {.id = "tp.pattern",
     .summary = "every pattern of a tensor-parallel plan matches a module",
     .explain = "A pattern is a module's full name, where `*` matches one component: "
                "\"model.layers.*.mlp.up_proj\". A pattern that matches nothing is a typo, and the "
                "intended module would silently be replicated, which takes more memory and gains "
                "no speed.\n\n"
                "If several patterns match a module, the last one applies.",
     .check = nullptr},
    {.id = "tp.style",
     .summary = "every style is known and fits its module",
     .explain =
         "Linear layers take colwise (weight cut by rows, output cut), rowwise (weight cut by "
         "columns, input cut, output summed), colwise_rep (output gathered) and rowwise_rep (whole "
         "input). An embedding takes rowwise_rep, also written embedding_rowwise: a slice of the "
         "vocabulary. Norms between layers take sequence_parallel; norms over heads (q_norm, "
         "k_norm) take replicated_with_grad_allreduce. A module without a style is replicated.",
     .check = nullptr},
    {.id = "tp.pair",
     .summary = "a module and the next one are cut consistently",
     .explain =
         "q_proj, k_proj and v_proj are cut alike, and o_proj takes their output: colwise, then "
         "rowwise. The same holds for gate_proj and up_proj before down_proj. If only one of two "
         "such modules were cut, a part of a tensor would be used as if it were the whole.\n\n"
         "The same holds for gradients. A replicated weight that acts on a part of the heads or of "
         "the sequence has only a part of its gradient on each rank, and this gradient must be "
         "summed over tp. The gradient of a weight that acts on all of them must not be summed. "
         "With sequence_parallel = true every norm between layers takes \"sequence_parallel\".",
     .check = nullptr},
}};

}  // namespace

const model::LayerSpec* layer_of_cut_heads(const RuleContext& context) {
  if (context.layout == nullptr) return nullptr;
  const layout::Layout& layout = *context.layout;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const model::ParameterSpec& parameter = layout.inventory.parameters[i];
    if (!gives_queries(parameter.role) || parameter.bias) continue;
    const auto style = layout.tp.parameters[i].style;
    if (style == model::TpStyle::kColwise || style == model::TpStyle::kPackedColwise) {
      return &layout.inventory.spec.layer(parameter.layer);
    }
  }
  return nullptr;
}

std::string tp_sizes_help(const RuleContext& context, int64_t length) {
  std::vector<int64_t> fitting = divisors(length);
  std::erase_if(fitting, [&](int64_t tp) { return !is_legal_tp(context, tp); });
  return assignment("tp_size", nearest_values(std::move(fitting), context.axes->tp));
}

std::span<const Rule> tp_rules() { return kRules; }

}  // namespace am::rules
