#include "am/model/tp_check.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "am/base/text.h"

namespace am::model {
namespace {

std::string_view leaf_name(const TpModule& module) {
  return std::string_view(module.name).substr(module.name.rfind('.') + 1);
}

bool takes_cut_input(const TpModule& module) { return module.style == TpStyle::kRowwise; }

std::string style_text(const TpModule& module) {
  return module.style.has_value() ? cat("\"", to_string(*module.style), "\"") : "no style";
}

// Adds errors to `found`, and drops repeated messages: a mistake in all layers becomes one error.
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

// Whether the module is a fused matrix whose slices are cut separately: a matrix of queries, keys
// and values, or a matrix of gate and up.
bool is_packed(const TpModule& module) {
  return !module.spec->slices.empty() &&
         (module.role() == Role::kQkv || module.role() == Role::kGateUp ||
          module.role() == Role::kSharedUp);
}

void check_linear(const TpModule& module, Reporter& report) {
  const std::string style = style_text(module);
  if (module.style == TpStyle::kSequenceParallel ||
      module.style == TpStyle::kReplicatedWithGradAllreduce) {
    report.error("tp.style", module, cat("is a linear layer and cannot be ", style),
                 "a linear layer takes \"colwise\", \"rowwise\", \"colwise_rep\" or "
                 "\"rowwise_rep\"; leave it out to replicate it");
  } else if (module.style == TpStyle::kColwise && is_packed(module)) {
    report.error("tp.style", module,
                 "holds several matrices one after the other, and cannot be \"colwise\": a rank "
                 "would have all of one matrix and nothing of another",
                 "use \"packed_colwise\", which cuts each of them separately, or \"colwise_rep\", "
                 "which gathers the output");
  } else if (module.style == TpStyle::kPackedColwise && !is_packed(module)) {
    report.error("tp.style", module, "is one matrix and cannot be \"packed_colwise\"",
                 "use \"colwise\", which cuts one matrix");
  }
}

void check_style(const TpModule& module, Reporter& report) {
  if (!module.style.has_value()) return;
  const std::string style = style_text(module);
  switch (module.kind()) {
    case ModuleKind::kEmbedding:
      if (module.role() == Role::kPositions) {
        report.error("tp.style", module, cat("holds learned positions and cannot be ", style),
                     "each rank needs the whole table; leave the module out of the plan");
        return;
      }
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
      report.error(
          "tp.style", module,
          cat(module.kind() == ModuleKind::kExpert ? "is an expert" : "chooses experts",
              " and cannot be ", style),
          "tensor parallelism does not cut experts and routers; leave the module out of the plan");
      return;
    case ModuleKind::kHeadVector:
      if (module.style == TpStyle::kColwise) return;
      report.error("tp.style", module, cat("has a value for each head and cannot be ", style),
                   "it is always cut like q_proj; leave it out of the plan");
      return;
    case ModuleKind::kNorm:
      break;
  }
  const TpStyle wanted =
      module.is_head_norm() ? TpStyle::kReplicatedWithGradAllreduce : TpStyle::kSequenceParallel;
  if (module.style != wanted) {
    report.error(
        "tp.style", module,
        cat("is a norm ", module.is_head_norm() ? "over heads " : "", "and cannot be ", style),
        cat("use \"", to_string(wanted), "\", or leave it out to replicate it"));
  }
}

// Returns the roles of the modules whose outputs a module of role `role` reads. The attention
// output projection reads queries, keys and values. The down projections of the dense feed-forward
// and of the shared experts read gate and up. Returns an empty list for modules that read the
// hidden state or an input that tp never shards.
std::initializer_list<Role> feeders_of(Role role) {
  static constexpr std::initializer_list<Role> kAttention = {
      Role::kQuery, Role::kKey, Role::kValue, Role::kQueryUp, Role::kKeyValueUp, Role::kQkv};
  static constexpr std::initializer_list<Role> kDense = {Role::kGate, Role::kUp, Role::kGateUp};
  static constexpr std::initializer_list<Role> kShared = {Role::kSharedGate, Role::kSharedUp};
  switch (role) {
    case Role::kAttentionOut:
      return kAttention;
    case Role::kDown:
      return kDense;
    case Role::kSharedDown:
      return kShared;
    default:
      return {};
  }
}

// Whether the attention output projection or the dense down projection reads the output of a module
// of this role.
bool feeds(Role role) {
  for (const Role consumer : {Role::kAttentionOut, Role::kDown}) {
    const auto feeders = feeders_of(consumer);
    if (std::find(feeders.begin(), feeders.end(), role) != feeders.end()) return true;
  }
  return false;
}

// Checks that the outputs of the `producers` are all sharded or all replicated, and that the style
// of `last`, which reads these outputs, fits. The producers are the projections to queries, keys
// and values, or gate and up.
void check_pair(const std::vector<const TpModule*>& producers, const TpModule& last,
                Reporter& report) {
  const TpModule& first = *producers.front();
  std::vector<std::string> names;
  for (const TpModule* module : producers) names.emplace_back(leaf_name(*module));
  for (const TpModule* module : producers) {
    if (module->style == TpStyle::kRowwise) {
      report.error("tp.pair", *module, "is \"rowwise\", but its input is not cut over tp",
                   "use \"rowwise_rep\", which takes a whole input");
    } else if (module->has_cut_output() != first.has_cut_output()) {
      report.error("tp.pair", *module,
                   cat("has ", style_text(*module), " while ", names.front(), " has ",
                       style_text(first), ": their outputs must be cut alike"),
                   cat("give \"colwise\" to all of ", join(names, ", "), ", or to none"));
    }
  }
  if (first.has_cut_output() != takes_cut_input(last)) {
    report.error(
        "tp.pair", last,
        cat("has ", style_text(last), " while ", names.front(), " has ", style_text(first)),
        first.has_cut_output() ? "use \"rowwise\" after \"colwise\": it takes the cut input"
                               : "use \"colwise\" before \"rowwise\", or \"rowwise_rep\", "
                                 "which takes a whole input");
  } else if (last.has_cut_output()) {
    report.error("tp.pair", last, "is \"colwise\", but the next module needs its whole output",
                 "use \"colwise_rep\", which gathers the output");
  }
}

void check_pairs(const TpModules& modules, const TpModule& module, Reporter& report) {
  std::vector<const TpModule*> producers;
  for (const Role role : feeders_of(module.role())) {
    const TpModule* producer = modules.find(module.layer, role);
    if (producer != nullptr) producers.push_back(producer);
  }
  if (!producers.empty()) check_pair(producers, module, report);
}

void check_head_norm(const TpModules& modules, const TpModule& module, Reporter& report) {
  if (!module.is_head_norm()) return;
  const TpModule* projection = modules.projection_of(module);
  if (projection == nullptr) return;
  const std::string name(leaf_name(*projection));
  const bool cut = projection->has_cut_output();
  if (modules.attention_of(module).norms_span_heads && cut && module.style.has_value()) {
    report.error("tp.style", module, "has a weight for each head and cannot be replicated",
                 cat("it is always cut like ", name, "; leave it out of the plan"));
  } else if (module.style.has_value() && !cut) {
    report.error("tp.pair", module,
                 cat("sums its gradient over tp, but ", name,
                     " is not \"colwise\": every rank has the whole gradient already"),
                 cat("leave ", leaf_name(module), " out, or make ", name, " \"colwise\""));
  }
}

void check_sequence_parallel(const TpPlan& plan, const TpModule& module, Reporter& report) {
  const bool hidden_norm = module.kind() == ModuleKind::kNorm && !module.is_head_norm();
  if (!plan.sequence_parallel) {
    if (module.style == TpStyle::kSequenceParallel) {
      report.error("tp.pair", module, "is \"sequence_parallel\", but sequence_parallel is false",
                   "set sequence_parallel = true in [strategy], or leave the norm out");
    }
    return;
  }
  const bool sums = module.style == TpStyle::kRowwise || module.style == TpStyle::kRowwiseRep;
  const bool gathers = module.has_cut_output() || module.style == TpStyle::kColwiseRep;
  const bool consumes = module.role() == Role::kAttentionOut || module.role() == Role::kDown;
  const char* needed = nullptr;
  if (hidden_norm && module.style != TpStyle::kSequenceParallel) needed = "sequence_parallel";
  if (consumes && !sums) needed = "rowwise";
  // With sequence parallelism, queries, keys, values, gate and up must gather the tokens, as
  // column-wise styles do. Attention needs the complete sequence, and the row-wise modules after
  // attention, gate and up sum partial outputs of the same tokens over all ranks.
  if (feeds(module.role()) && !gathers) {
    needed = is_packed(module) ? "packed_colwise" : "colwise";
  }
  if (module.role() == Role::kEmbedding && !module.style.has_value()) needed = "rowwise_rep";
  const bool own_head = module.role() == Role::kHead && !module.parameters.empty();
  if (own_head && !module.style.has_value()) needed = "colwise";
  if (needed != nullptr) {
    report.error("tp.pair", module,
                 cat("has ", style_text(module),
                     " while sequence_parallel = true cuts the hidden "
                     "states over the sequence"),
                 cat("give it \"", needed, "\", or set sequence_parallel = false"));
  }
}

void check_head(const TpModules& modules, Reporter& report) {
  const TpModule* head = modules.find(-1, Role::kHead);
  const TpModule* embedding = modules.find(-1, Role::kEmbedding);
  if (head == nullptr || !head->style.has_value()) return;
  if (head->style == TpStyle::kRowwise || head->style == TpStyle::kRowwiseRep) {
    report.error("tp.style", *head, cat("cannot be ", style_text(*head)),
                 "the head is cut over the vocabulary: \"colwise\" keeps the logits cut, "
                 "\"colwise_rep\" gathers them");
  } else if (!head->spec->stored && !embedding->style.has_value()) {
    report.error("tp.pair", *head,
                 cat("shares its weight with ", embedding->name, ", which is not cut"),
                 cat("give ", embedding->name, " \"rowwise_rep\""));
  }
}

}  // namespace

bool TpModule::is_head_norm() const {
  return role() == Role::kQueryNorm || role() == Role::kKeyNorm;
}

namespace {

// Returns the description of the module named `name` that has the parameter. Modules of role kOther
// that tp cuts are found by name, all others by role.
const ModuleSpec* description_of(const DecoderSpec& spec, const ParameterSpec& parameter,
                                 const std::string& name) {
  if (parameter.layer < 0) return spec.find(parameter.role);
  const LayerSpec& layer = spec.layer(parameter.layer);
  for (const ModuleSpec& module : layer.modules) {
    const bool is_cut =
        module.other_cut == OtherCut::kRows || module.other_cut == OtherCut::kColumns;
    if (is_cut && parameter.role == Role::kOther && ends_with(name, cat(".", module.name))) {
      return &module;
    }
  }
  return layer.find(parameter.role);
}

}  // namespace

TpModules::TpModules(const Inventory& inventory) : spec_(inventory.spec) {
  const auto add = [&](std::string name, const ModuleSpec* module, int layer) {
    modules_.emplace_back().name = std::move(name);
    modules_.back().spec = module;
    modules_.back().layer = layer;
    by_role_.emplace(std::pair(layer, module->role), modules_.size() - 1);
  };
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    const ParameterSpec& parameter = inventory.parameters[i];
    std::string name = parameter.module();
    if (modules_.empty() || modules_.back().name != name) {
      const ModuleSpec* module = description_of(spec_, parameter, name);
      add(std::move(name), module, parameter.layer);
    }
    modules_.back().parameters.push_back(static_cast<int>(i));
  }
  // A tied head without a bias has no parameters. It is added to the modules nevertheless, because
  // rules may match its name.
  const ModuleSpec* head = spec_.find(Role::kHead);
  if (head->tensors() == 0) add(head->name, head, -1);
}

const TpModule* TpModules::find(int layer, Role role) const {
  const auto found = by_role_.find({layer, role});
  return found == by_role_.end() ? nullptr : &modules_[found->second];
}

const TpModule* TpModules::projection_of(const TpModule& module) const {
  const auto own_or_fused = [&](Role role) {
    const TpModule* own = find(module.layer, role);
    return own != nullptr ? own : find(module.layer, Role::kQkv);
  };
  switch (module.role()) {
    case Role::kQueryNorm:
    case Role::kSinks:
      return own_or_fused(Role::kQuery);
    case Role::kKeyNorm:
      return own_or_fused(Role::kKey);
    default:
      return nullptr;
  }
}

bool TpModules::heads_are_cut(const TpModule& module) const {
  const TpModule* projection = projection_of(module);
  return projection != nullptr && projection->has_cut_output();
}

void check_tp_modules(const TpPlan& plan, const TpModules& modules, const Span& where,
                      Diagnostics& found) {
  // A plan without rules replicates every module, so there is nothing to check.
  if (plan.rules.empty()) return;
  Reporter report(plan, where, found);
  for (const TpModule& module : modules.all()) {
    check_style(module, report);
    check_sequence_parallel(plan, module, report);
    check_pairs(modules, module, report);
    check_head_norm(modules, module, report);
  }
  check_head(modules, report);
}

}  // namespace am::model
