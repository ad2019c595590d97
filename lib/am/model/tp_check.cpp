#include "am/model/tp_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "am/base/text.h"
#include "am/model/family.h"

namespace am::model {
namespace {

std::string_view leaf_name(const TpModule& module) {
  return std::string_view(module.name).substr(module.name.rfind('.') + 1);
}

bool is_cut_output(const TpModule& module) { return module.style == TpStyle::kColwise; }

bool takes_cut_input(const TpModule& module) { return module.style == TpStyle::kRowwise; }

std::string style_text(const TpModule& module) {
  return module.style.has_value() ? cat("\"", to_string(*module.style), "\"") : "no style";
}

// Collects diagnostics so that eighty layers with one mistake give one line.
class Reporter {
 public:
  Reporter(const TpPlan& plan, const Span& where, Diagnostics& found)
      : plan_(plan), where_(where), found_(found) {}

  void error(std::string_view rule, const TpModule& module, std::string message, std::string help) {
    message = cat("\"", any_layer_name(module.name, module.layer), "\" ", message);
    if (!seen_.insert(message).second) return;
    found_.error(std::string(rule), place(module), std::move(message), std::move(help));
  }

 private:
  Span place(const TpModule& module) const {
    if (module.rule < 0) return where_;
    const Span& own = plan_.rules[static_cast<size_t>(module.rule)].where;
    return own.file.empty() ? where_ : own;
  }

  const TpPlan& plan_;
  const Span& where_;
  Diagnostics& found_;
  std::set<std::string> seen_;
};

// One matrix with queries, keys and values one after the other.
bool is_fused_attention(const TpModule& module) {
  const std::string_view leaf = leaf_name(module);
  return leaf == "qkv_proj" || leaf == "c_attn" || leaf == "query_key_value";
}

void check_linear(const TpModule& module, Reporter& report) {
  const std::string style = style_text(module);
  if (module.style == TpStyle::kSequenceParallel ||
      module.style == TpStyle::kReplicatedWithGradAllreduce) {
    report.error("tp.style", module, cat("is a linear layer and cannot be ", style),
                 "a linear layer takes \"colwise\", \"rowwise\", \"colwise_rep\" or "
                 "\"rowwise_rep\"; leave it out to replicate it");
  } else if (is_fused_attention(module) && is_cut_output(module)) {
    report.error("tp.style", module,
                 "holds queries, keys and values one after the other, and cannot be \"colwise\": "
                 "a slice of it would not be heads",
                 "\"colwise_rep\" or \"rowwise_rep\" cut the weight and give whole heads");
  }
}

void check_style(const TpModule& module, Reporter& report) {
  if (!module.style.has_value()) return;
  const std::string style = style_text(module);
  switch (module.kind) {
    case ModuleKind::kEmbedding:
      if (module.style == TpStyle::kRowwise || module.style == TpStyle::kRowwiseRep) return;
      report.error("tp.style", module, cat("is an embedding and cannot be ", style),
                   "an embedding is cut over the vocabulary: \"rowwise_rep\" or "
                   "\"embedding_rowwise\"");
      return;
    case ModuleKind::kLinear:
      check_linear(module, report);
      return;
    case ModuleKind::kExpert:
    case ModuleKind::kRouter:
      report.error("tp.style", module,
                   cat(module.kind == ModuleKind::kExpert ? "is an expert" : "chooses experts",
                       " and cannot be ", style),
                   "tensor parallelism leaves experts and routers whole; leave it out");
      return;
    case ModuleKind::kHeadVector:
      if (module.style == TpStyle::kColwise) return;
      report.error("tp.style", module, cat("has a value for each head and cannot be ", style),
                   "it is cut as q_proj is; leave it out");
      return;
    case ModuleKind::kNorm:
      break;
  }
  const TpStyle wanted =
      is_head_norm(module) ? TpStyle::kReplicatedWithGradAllreduce : TpStyle::kSequenceParallel;
  if (module.style != wanted) {
    report.error(
        "tp.style", module,
        cat("is a norm ", is_head_norm(module) ? "over heads " : "", "and cannot be ", style),
        cat("it takes \"", to_string(wanted), "\"; leave it out to replicate it"));
  }
}

// Modules by name.
using Index = std::map<std::string_view, const TpModule*>;

const TpModule* find(const Index& index, const std::string& name) {
  const auto at = index.find(name);
  return at == index.end() ? nullptr : at->second;
}

// Which siblings feed which: what meets in attention or in the gate, and what takes the result.
struct Pair {
  std::string_view consumer;
  std::array<std::string_view, 3> producers;
};
constexpr std::array<Pair, 10> kPairs = {{{"o_proj", {"q_proj", "k_proj", "v_proj"}},
                                          {"dense", {"q_proj", "k_proj", "v_proj"}},
                                          {"dense", {"query_key_value"}},
                                          {"o_proj", {"q_proj", "q_b_proj", "kv_b_proj"}},
                                          {"o_proj", {"qkv_proj"}},
                                          {"down_proj", {"gate_proj", "up_proj"}},
                                          {"down_proj", {"gate_up_proj"}},
                                          {"fc2", {"fc1"}},
                                          {"c_proj", {"c_fc", "c_attn"}},
                                          {"dense_4h_to_h", {"dense_h_to_4h"}}}};

bool is_consumer(std::string_view leaf) {
  return std::any_of(kPairs.begin(), kPairs.end(),
                     [&](const Pair& pair) { return pair.consumer == leaf; });
}

bool is_producer(std::string_view leaf) {
  return std::any_of(kPairs.begin(), kPairs.end(), [&](const Pair& pair) {
    return std::find(pair.producers.begin(), pair.producers.end(), leaf) != pair.producers.end();
  });
}

// Producers whose outputs meet (queries, keys, values; gate and up) must all be cut or all be
// whole, and the consumer must take what they give.
void check_pair(const std::vector<const TpModule*>& producers, const TpModule& last,
                Reporter& report) {
  const TpModule& first = *producers.front();
  std::vector<std::string> names;
  for (const TpModule* module : producers) names.emplace_back(leaf_name(*module));
  for (const TpModule* module : producers) {
    if (module->style == TpStyle::kRowwise) {
      report.error("tp.pair", *module, "is \"rowwise\", but its input is not cut over tp",
                   "\"rowwise_rep\" takes a whole input");
    } else if (is_cut_output(*module) != is_cut_output(first)) {
      report.error("tp.pair", *module,
                   cat("has ", style_text(*module), " while ", names.front(), " has ",
                       style_text(first), ": their outputs must be cut alike"),
                   cat("give \"colwise\" to all of ", join(names, ", "), ", or to none"));
    }
  }
  if (is_cut_output(first) != takes_cut_input(last)) {
    report.error(
        "tp.pair", last,
        cat("has ", style_text(last), " while ", names.front(), " has ", style_text(first)),
        is_cut_output(first) ? "after \"colwise\" comes \"rowwise\", which takes the cut input"
                             : "\"rowwise\" needs \"colwise\" before it; \"rowwise_rep\" "
                               "takes a whole input");
  } else if (is_cut_output(last)) {
    report.error("tp.pair", last, "is \"colwise\", but what follows needs its whole output",
                 "\"colwise_rep\" gathers the output");
  }
}

void check_pairs(const Index& index, const TpModule& module, Reporter& report) {
  const std::string_view leaf = leaf_name(module);
  if (module.layer < 0 || module.kind != ModuleKind::kLinear || !is_consumer(leaf)) return;
  const std::string parent = module.name.substr(0, module.name.size() - leaf.size());
  std::vector<const TpModule*> producers;
  for (const Pair& pair : kPairs) {
    if (pair.consumer != leaf) continue;
    for (const std::string_view name : pair.producers) {
      const TpModule* producer = name.empty() ? nullptr : find(index, cat(parent, name));
      const bool known = std::find(producers.begin(), producers.end(), producer) != producers.end();
      if (producer != nullptr && !known) producers.push_back(producer);
    }
  }
  if (!producers.empty()) check_pair(producers, module, report);
}

// "...self_attn.q_norm" or "...self_attn.q_layernorm" to "...self_attn.q_proj".
std::string projection_of(const TpModule& head_norm) {
  return cat(head_norm.name.substr(0, head_norm.name.rfind('_')), "_proj");
}

void check_head_norm(const Index& index, const TpModule& module, const ModelConfig& config,
                     Reporter& report) {
  if (!is_head_norm(module)) return;
  const TpModule* projection = find(index, projection_of(module));
  if (projection == nullptr) return;
  const std::string name(leaf_name(*projection));
  const bool cut = is_cut_output(*projection);
  if (config.qk_norm_spans_heads && cut) {
    report.error(
        "tp.pair", *projection,
        cat("is \"colwise\", but ", leaf_name(module), " normalises all heads of a token together"),
        "\"colwise_rep\" gathers them: give it to q_proj, k_proj and v_proj, and "
        "\"rowwise_rep\" to o_proj");
  } else if (module.style.has_value() && !cut) {
    report.error("tp.pair", module,
                 cat("sums its gradient over tp, but ", name,
                     " is not \"colwise\": every rank has the whole gradient already"),
                 cat("leave ", leaf_name(module), " out, or make ", name, " \"colwise\""));
  }
}

void check_sequence_parallel(const TpPlan& plan, const TpModule& module, Reporter& report) {
  const bool hidden_norm = module.kind == ModuleKind::kNorm && !is_head_norm(module);
  if (!plan.sequence_parallel) {
    if (module.style == TpStyle::kSequenceParallel) {
      report.error("tp.pair", module, "is \"sequence_parallel\", but the strategy is not",
                   "set sequence_parallel = true in [strategy], or leave the norm out");
    }
    return;
  }
  const std::string_view leaf = leaf_name(module);
  const bool sums = module.style == TpStyle::kRowwise || module.style == TpStyle::kRowwiseRep;
  const bool gathers = module.style == TpStyle::kColwise || module.style == TpStyle::kColwiseRep;
  const bool in_layer =
      module.layer >= 0 && module.kind == ModuleKind::kLinear && !in_expert_layer(module);
  const char* needed = nullptr;
  if (hidden_norm && module.style != TpStyle::kSequenceParallel) needed = "sequence_parallel";
  if (in_layer && is_consumer(leaf) && !sums) needed = "rowwise";
  // Attention needs the whole sequence, and what sums needs all of its input for the same tokens.
  if (in_layer && is_producer(leaf) && !gathers) {
    needed = is_fused_attention(module) ? "colwise_rep" : "colwise";
  }
  if (module.kind == ModuleKind::kEmbedding && !module.style.has_value()) needed = "rowwise_rep";
  const bool own_head = leaf == "lm_head" && !module.parameters.empty();
  if (own_head && !module.style.has_value()) needed = "colwise";
  if (needed != nullptr) {
    report.error("tp.pair", module,
                 cat("has ", style_text(module),
                     " while sequence_parallel = true cuts the hidden "
                     "states over the sequence"),
                 cat("give it \"", needed, "\", or set sequence_parallel = false"));
  }
}

void check_head(const Index& index, const ModelConfig& config, Reporter& report) {
  const ModuleNames& names = family_of(config).names;
  const TpModule* head = find(index, std::string(names.head));
  const TpModule* embedding = find(index, std::string(names.embedding));
  if (head == nullptr || !head->style.has_value()) return;
  if (head->style == TpStyle::kRowwise || head->style == TpStyle::kRowwiseRep) {
    report.error("tp.style", *head, cat("cannot be ", style_text(*head)),
                 "the head is cut over the vocabulary: \"colwise\" keeps the logits cut, "
                 "\"colwise_rep\" gathers them");
  } else if (config.tie_word_embeddings && embedding != nullptr && !embedding->style.has_value()) {
    report.error("tp.pair", *head,
                 cat("shares its weight with ", names.embedding, ", which is not cut"),
                 cat("give ", names.embedding, " \"rowwise_rep\""));
  }
}

}  // namespace

bool in_expert_layer(const TpModule& module) {
  return module.kind == ModuleKind::kExpert || module.kind == ModuleKind::kRouter ||
         module.name.find(".shared_expert") != std::string::npos;
}

bool query_is_cut(const std::vector<TpModule>& modules, size_t at) {
  const std::string wanted = modules[at].name + ".q_proj";
  for (size_t i = at; i < modules.size() && modules[i].layer == modules[at].layer; ++i) {
    if (modules[i].name == wanted) return is_cut_output(modules[i]);
  }
  return false;
}

bool is_head_norm(const TpModule& module) {
  if (module.kind != ModuleKind::kNorm) return false;
  const std::string_view leaf = leaf_name(module);
  return leaf == "q_norm" || leaf == "k_norm" || leaf == "q_layernorm" || leaf == "k_layernorm";
}

bool projection_is_cut(const std::vector<TpModule>& modules, size_t at) {
  const std::string wanted = projection_of(modules[at]);
  for (size_t i = at; i-- > 0 && modules[i].layer == modules[at].layer;) {
    if (modules[i].name == wanted) return is_cut_output(modules[i]);
  }
  return false;
}

void check_tp_modules(const TpPlan& plan, const std::vector<TpModule>& modules,
                      const ModelConfig& config, const Span& where, Diagnostics& found) {
  // A plan without rules is no tensor parallelism: everything is replicated, and nothing can clash.
  if (plan.rules.empty()) return;
  Reporter report(plan, where, found);
  Index index;
  for (const TpModule& module : modules) index[module.name] = &module;
  for (const TpModule& module : modules) {
    check_style(module, report);
    check_sequence_parallel(plan, module, report);
    check_pairs(index, module, report);
    check_head_norm(index, module, config, report);
  }
  check_head(index, config, report);
}

}  // namespace am::model
