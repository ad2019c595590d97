#include "am/values/commands/functions.h"

namespace am::values {
namespace {

struct Named {
  std::string_view name;
  RankFunction* function;
};

constexpr Named kFunctions[] = {
    {"acts", run_acts},         {"experts", run_experts},
    {"stats", run_stats},       {"norms", run_norms},
    {"calc", run_calc},         {"nan", run_nan},
    {"checksum", run_checksum}, {"dead", run_dead},
    {"optim", run_optim},       {"grad", run_grad},
    {"top", run_top},           {"hist", run_hist},
    {"heat", run_heat},         {"plot", run_plot},
    {"print", run_print},       {"unshard", run_unshard},
    {"reshard", run_reshard},   {"loss", run_loss},
    {"logprob", run_logprob},   {"generate", run_generate},
    {"export", run_export},     {"diff", run_diff},
    {"same", run_same},         {"drift", run_drift},
    {"set", run_set},           {"collectives", run_collectives},
    {"step", run_step},         {"attention", run_attention},
};

}  // namespace

RankFunction* value_function(std::string_view command) {
  for (const auto& [name, function] : kFunctions) {
    if (name == command) return function;
  }
  return nullptr;
}

}  // namespace am::values
