#include "am/layout/adapters.h"

#include <cmath>
#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/layout/layout.h"

namespace am::layout {
namespace {

void check_targets(const config::Plan& plan, const model::DecoderSpec& spec,
                   const model::LoraConfig& lora, Diagnostics& found) {
  const char* key = "lora.target_modules";
  const std::vector<std::string> legal = model::legal_targets(spec);
  const std::string listed = cat("legal: ", join(legal, ", "), ", \"all-linear\"");
  if (lora.target_modules.empty()) {
    found.error(key, plan.span(key), "target_modules names no module to adapt", listed);
  }
  for (const model::BadTarget& bad : model::find_bad_targets(spec, lora)) {
    if (bad.matched) {
      found.error(key, plan.span(key),
                  cat("\"", bad.target, "\" matches ", *bad.matched, ", which ", bad.why,
                      " and cannot have an adapter"),
                  listed);
      continue;
    }
    const auto near = nearest(bad.target, legal);
    found.error(key, plan.span(key), cat("no module matches \"", bad.target, "\""),
                cat(near ? cat("did you mean \"", *near, "\"? ") : std::string(), listed));
  }
}

void check_saved(const config::Plan& plan, const model::DecoderSpec& spec,
                 const model::LoraConfig& lora, Diagnostics& found) {
  const char* key = "lora.modules_to_save";
  for (const model::BadTarget& bad : model::find_bad_saved(spec, lora)) {
    found.error(key, plan.span(key),
                bad.matched
                    ? cat("\"", bad.target, "\" matches ", *bad.matched, ", which ", bad.why)
                    : cat("no module matches \"", bad.target, "\""),
                cat("name modules without an adapter, for example \"", spec.names.embedding, "\""));
  }
}

}  // namespace

model::LoraConfig lora_config(const config::LoraSection& section) {
  const double rank = as_double(section.rank);
  const double scale =
      section.rank > 0 ? section.alpha / (section.use_rslora ? std::sqrt(rank) : rank) : 0.0;
  return {.rank = section.rank,
          .scale = scale,
          .target_modules = section.target_modules,
          .dropout = section.dropout,
          .modules_to_save = section.modules_to_save,
          .dora = section.use_dora};
}

model::DecoderSpec planned_spec(const config::Plan& plan, const model::ModelConfig& config,
                                Diagnostics& found) {
  model::DecoderSpec spec = model::describe(config);
  if (plan.lora.rank == 0) return spec;
  const model::LoraConfig lora = lora_config(plan.lora);
  check_targets(plan, spec, lora, found);
  spec = model::with_lora(std::move(spec), lora);
  check_saved(plan, spec, lora, found);
  return spec;
}

std::string adapters_text(const Layout& layout) {
  const model::Inventory& inventory = layout.inventory;
  int64_t modules = 0, rank = 0, trained = 0;
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    const model::ParameterSpec& parameter = inventory.parameters[i];
    if (layout.parameters[i].trainable) trained += numel(parameter.shape);
    if (parameter.adapter != model::AdapterPart::kA) continue;
    rank = parameter.shape.front();
    ++modules;
  }
  if (modules == 0) return {};
  return cat("rank ", rank, " for ", modules,
             modules == 1 ? " module: " : " modules: ", format_short_count(as_double(trained)),
             " of ", format_short_count(as_double(inventory.total())), " parameters are trained");
}

}  // namespace am::layout
