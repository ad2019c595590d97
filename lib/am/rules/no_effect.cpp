// Notes on strategy keys that have no effect, because automesh always or never does what they
// request, or because another key turns them off.
#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "am/base/text.h"
#include "am/config/backend.h"
#include "am/config/field.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

class Notes {
 public:
  Notes(const RuleContext& context, Diagnostics& found)
      : context_(context), found_(found), strategy_(config::strategy_name(context.plan.strategy)) {}

  // Adds a note if the plan sets the key and `differs` is true. `differs`: automesh does not do
  // what the key's value requests. A plan that sets all keys is taken to be the resolved plan of a
  // run folder; its keys with default values are not reported.
  void add(const char* key, bool differs, const char* why) {
    if (!differs || !context_.plan.given(key)) return;
    if (!config::is_chosen(context_.plan, key) && sets_all_keys()) return;
    const std::string_view name = key;
    found_.add({"strategy.no_effect", Severity::kNote, context_.plan.span(key),
                cat(name.substr(name.find('.') + 1), " changes nothing in automesh: ", why),
                "remove the key"});
  }

 private:
  // Whether the plan sets all keys of its strategy that have a default.
  bool sets_all_keys() const {
    const config::Plan defaults = config::default_plan(strategy_);
    const std::vector<std::string> keys = config::section_keys("strategy", strategy_);
    return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
      return context_.plan.given("strategy." + key) ||
             config::find_field("strategy", key, strategy_)->get(defaults).is_null();
    });
  }

  const RuleContext& context_;
  Diagnostics& found_;
  std::string strategy_;
};

void check(const config::FSDP2Config& config, const config::Plan& plan, Notes& notes) {
  // The measurements are in lib/decisions/0010-fused-operators-and-memory-on-the-host.md.
  notes.add("strategy.enable_compile", config.enable_compile,
            "the operators that a compiler would fuse are already fused");
  // The measurements are in lib/decisions/0008-shared-memory-collectives.md.
  notes.add("strategy.enable_async_tensor_parallel",
            config.enable_async_tensor_parallel && config::computes_on_host(config.backend),
            "on the host the same cores communicate and compute, so communication cannot overlap "
            "with matrix products");
  notes.add("strategy.offload_policy",
            config.offload_policy && config::computes_on_host(config.backend),
            "with the backend gloo, shards are in host memory already");
  notes.add("strategy.patch_is_packed_sequence",
            config.patch_is_packed_sequence && !plan.data.has_documents(),
            "sequences are packed only with data.reset_position_ids = true, or by data.packing");
  notes.add("strategy.activation_checkpointing_every",
            config.activation_checkpointing == config::ActivationCheckpointing::kOff,
            "no layer is checkpointed without activation_checkpointing");
  const bool prefetch = config.enable_fsdp2_prefetch;
  notes.add("strategy.fsdp2_forward_prefetch_depth", !prefetch,
            "units are gathered ahead only with enable_fsdp2_prefetch = true");
  notes.add("strategy.fsdp2_backward_prefetch_depth", !prefetch,
            "units are gathered ahead only with enable_fsdp2_prefetch = true");
}

void check(const config::MegatronFSDPConfig& config, const config::Plan& /*plan*/, Notes& notes) {
  notes.add(
      "strategy.average_in_collective", config.average_in_collective,
      "gradients are summed over all ranks; the loss is divided by the labels of the global batch");
  notes.add("strategy.calculate_per_token_loss", !config.calculate_per_token_loss,
            "the loss is always the average over all labels of the global batch");
  notes.add("strategy.nccl_ub", config.nccl_ub && config::runs_without_nccl(config.backend),
            "without the backend nccl, there are no NCCL buffers to register");
  notes.add("strategy.keep_fp8_transpose_cache", config.keep_fp8_transpose_cache,
            "automesh keeps no parameter in FP8");
  notes.add("strategy.init_fsdp_with_meta_device", !config.init_fsdp_with_meta_device,
            "no rank ever holds more than its shards and one unit while a model is built");
  notes.add("strategy.fsdp_double_buffer", config.fsdp_double_buffer && config.zero_dp_strategy < 3,
            "layers are gathered into buffers and freed only with zero_dp_strategy = 3");
}

void check(const config::DDPConfig& config, const config::Plan& /*plan*/, Notes& notes) {
  notes.add("strategy.gradient_as_bucket_view", !config.gradient_as_bucket_view,
            "gradients are always views of their buckets");
  notes.add("strategy.static_graph", config.static_graph,
            "buckets follow the model's order of parameters, not the first step's, even with "
            "checkpointing");
  notes.add("strategy.broadcast_buffers", config.broadcast_buffers,
            "the only buffers are tables that every rank computes itself");
  notes.add("strategy.find_unused_parameters", config.find_unused_parameters,
            "a bucket that is not full when backward ends is reduced with zeros for the rest");
}

// Adds no note: predictions read all keys of this strategy.
void check(const config::MegatronConfig& /*config*/, const config::Plan& /*plan*/,
           Notes& /*notes*/) {}

void check_no_effect(const RuleContext& context, Diagnostics& found) {
  Notes notes(context, found);
  std::visit([&](const auto& config) { check(config, context.plan, notes); },
             context.plan.strategy);
}

constexpr std::array<Rule, 1> kRules = {{
    {.id = "strategy.no_effect",
     .summary = "a strategy key that is given has an effect (reported as a note)",
     .explain =
         "Layout changes the result only by rounding: the loss of a step is the average over all "
         "labels of the global batch, on any number of ranks, so there is nothing to "
         "average in a collective and no other way to weigh labels. Parameters are filled "
         "shard by shard from a checkpoint, or from a seed by name and position, so a rank "
         "holds no more than its shards and one unit meanwhile. Gradients are packed into the "
         "communication buffers as soon as they are computed. Keys that ask for any of these, or "
         "for the opposite, "
         "are accepted for compatibility and ignored, as are keys that another key turns off.",
     .check = check_no_effect},
}};

}  // namespace

std::span<const Rule> no_effect_rules() { return kRules; }

}  // namespace am::rules
