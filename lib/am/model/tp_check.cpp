#include "am/model/tp_check.h"

#include <map>
#include <set>
#include <utility>

#include "am/base/text.h"

namespace am::model {
namespace {

std::string leaf_name(const TpModule& module) {
  return module.name.substr(module.name.rfind('.') + 1);
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
    const std::string name = module.layer < 0 ? module.name : "model.layers.*." + in_layer(module);
    message = cat("\"", name, "\" ", message);
    if (!seen_.insert(message).second) return;
    found_.error(std::string(rule), place(module), std::move(message), std::move(help));
  }

 private:
  static std::string in_layer(const TpModule& module) {
    return module.name.substr(cat("model.layers.", module.layer, ".").size());
  }
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

void check_style(const TpModule& module, Reporter& report) {
  if (!module.style.has_value()) return;
  const std::string style = style_text(module);
  if (module.kind == ModuleKind::kEmbedding && module.style != TpStyle::kRowwise &&
      module.style != TpStyle::kRowwiseRep) {
    report.error("tp.style", module, cat("is an embedding and cannot be ", style),
                 "an embedding is cut over the vocabulary: \"rowwise_rep\" or "
                 "\"embedding_rowwise\"");
  }
  if (module.kind == ModuleKind::kLinear &&
      (module.style == TpStyle::kSequenceParallel ||
       module.style == TpStyle::kReplicatedWithGradAllreduce)) {
    report.error("tp.style", module, cat("is a linear layer and cannot be ", style),
                 "a linear layer takes \"colwise\", \"rowwise\", \"colwise_rep\" or "
                 "\"rowwise_rep\"; leave it out to replicate it");
  }
  if (module.kind != ModuleKind::kNorm) return;
  const TpStyle wanted =
      is_head_norm(module) ? TpStyle::kReplicatedWithGradAllreduce : TpStyle::kSequenceParallel;
  if (module.style != wanted) {
    report.error(
        "tp.style", module,
        cat("is a norm ", is_head_norm(module) ? "over heads " : "", "and cannot be ", style),
        cat("it takes \"", to_string(wanted), "\"; leave it out to replicate it"));
  }
}

// The modules of one layer by the last component of their names.
using Layer = std::map<std::string, const TpModule*>;

// Producers whose outputs meet (queries, keys, values; gate and up) must all be cut or all be
// whole, and the consumer must take what they give.
void check_pair(const Layer& layer, const std::vector<std::string>& producers,
                const std::string& consumer, Reporter& report) {
  const TpModule& first = *layer.at(producers.front());
  for (const std::string& name : producers) {
    const TpModule& module = *layer.at(name);
    if (module.style == TpStyle::kRowwise) {
      report.error("tp.pair", module, "is \"rowwise\", but its input is not cut over tp",
                   "\"rowwise_rep\" takes a whole input");
    } else if (is_cut_output(module) != is_cut_output(first)) {
      report.error("tp.pair", module,
                   cat("has ", style_text(module), " while ", producers.front(), " has ",
                       style_text(first), ": their outputs must be cut alike"),
                   cat("give \"colwise\" to all of ", join(producers, ", "), ", or to none"));
    }
  }
  const TpModule& last = *layer.at(consumer);
  if (is_cut_output(first) != takes_cut_input(last)) {
    report.error(
        "tp.pair", last,
        cat("has ", style_text(last), " while ", producers.front(), " has ", style_text(first)),
        is_cut_output(first) ? "after \"colwise\" comes \"rowwise\", which takes the cut input"
                             : "\"rowwise\" needs \"colwise\" before it; \"rowwise_rep\" "
                               "takes a whole input");
  } else if (is_cut_output(last)) {
    report.error("tp.pair", last, "is \"colwise\", but what follows needs its whole output",
                 "\"colwise_rep\" gathers the output");
  }
}

void check_head_norms(const Layer& layer, Reporter& report) {
  for (const auto& [norm, projection] : {std::pair{"q_norm", "q_proj"}, {"k_norm", "k_proj"}}) {
    const auto at = layer.find(norm);
    if (at == layer.end() || !at->second->style.has_value()) continue;
    if (!is_cut_output(*layer.at(projection))) {
      report.error("tp.pair", *at->second,
                   cat("sums its gradient over tp, but ", projection,
                       " is not \"colwise\": every rank has the whole gradient already"),
                   cat("leave ", norm, " out, or make ", projection, " \"colwise\""));
    }
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
  const std::string leaf = leaf_name(module);
  const char* needed = nullptr;
  if (hidden_norm && module.style != TpStyle::kSequenceParallel) needed = "sequence_parallel";
  if ((leaf == "o_proj" || leaf == "down_proj") && !takes_cut_input(module)) needed = "rowwise";
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

void check_head(const std::vector<TpModule>& modules, const ModelConfig& config, Reporter& report) {
  const TpModule* embedding = nullptr;
  for (const TpModule& module : modules) {
    if (module.kind == ModuleKind::kEmbedding) embedding = &module;
    if (module.name != "lm_head" || !module.style.has_value()) continue;
    if (module.style == TpStyle::kRowwise || module.style == TpStyle::kRowwiseRep) {
      report.error("tp.style", module, cat("cannot be ", style_text(module)),
                   "the head is cut over the vocabulary: \"colwise\" keeps the logits cut, "
                   "\"colwise_rep\" gathers them");
    } else if (config.tie_word_embeddings && embedding != nullptr &&
               !embedding->style.has_value()) {
      report.error("tp.pair", module, "shares its weight with model.embed_tokens, which is not cut",
                   "give model.embed_tokens \"rowwise_rep\"");
    }
  }
}

}  // namespace

bool is_head_norm(const TpModule& module) {
  return module.kind == ModuleKind::kNorm &&
         (ends_with(module.name, ".q_norm") || ends_with(module.name, ".k_norm"));
}

bool projection_is_cut(const std::vector<TpModule>& modules, size_t at) {
  std::string wanted = modules[at].name;
  wanted.replace(wanted.size() - std::string_view("norm").size(), std::string::npos, "proj");
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
  std::map<int, Layer> layers;
  for (const TpModule& module : modules) {
    check_style(module, report);
    check_sequence_parallel(plan, module, report);
    if (module.layer >= 0) layers[module.layer][leaf_name(module)] = &module;
  }
  check_head(modules, config, report);
  for (const auto& [index, layer] : layers) {
    check_pair(layer, {"q_proj", "k_proj", "v_proj"}, "o_proj", report);
    check_pair(layer, {"gate_proj", "up_proj"}, "down_proj", report);
    check_head_norms(layer, report);
  }
}

}  // namespace am::model
