// Rules on the keys of MegatronFSDPConfig that exclude or imply each other.
#include <array>
#include <variant>

#include "am/base/text.h"
#include "am/model/layer_class.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

const config::MegatronFSDPConfig* megatron(const RuleContext& context) {
  return std::get_if<config::MegatronFSDPConfig>(&context.plan.strategy);
}

void check_unit_modules(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr || context.model == nullptr) return;
  const std::string_view layer = model::family_of(*context.model).layer_class;
  for (const std::string& name : config->megatron_fsdp_unit_modules) {
    if (model::is_layer_class(*context.model, name)) continue;
    const model::Family* other = model::find_layer_class(name);
    found.error("strategy.unit_modules", context.plan.span("strategy.megatron_fsdp_unit_modules"),
                other == nullptr ? cat("no module class is known as \"", name, "\"")
                                 : cat("\"", name, "\" is the decoder layer of ", other->model_type,
                                       ", but this model is a ", context.model->model_type),
                cat("legal: \"", layer, "\" or \"", model::bare_class_name(layer),
                    "\"; or leave the key out"));
  }
}

void check_average(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr || !config->average_in_collective) return;
  if (!config->calculate_per_token_loss) return;
  found.error("strategy.average", context.plan.span("strategy.average_in_collective"),
              "average_in_collective = true divides gradients by the number of ranks, but "
              "calculate_per_token_loss = true by the number of labels",
              "set one of them to false");
}

void check_meta_device(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr || !config->init_fsdp_with_meta_device) return;
  if (config->zero_dp_strategy != 0) return;
  found.error("strategy.meta_device", context.plan.span("strategy.init_fsdp_with_meta_device"),
              "init_fsdp_with_meta_device = true initialises shards, but with zero_dp_strategy = 0 "
              "there are none",
              "zero_dp_strategy = 1, 2 or 3, or init_fsdp_with_meta_device = false");
}

void check_overlap(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr) return;
  if (config->overlap_param_gather && !config->overlap_grad_reduce) {
    found.warning("strategy.overlap", context.plan.span("strategy.overlap_grad_reduce"),
                  "overlap_param_gather = true works only with overlap_grad_reduce = true",
                  "overlap_grad_reduce = true, or overlap_param_gather = false");
  } else if (!config->overlap_param_gather && config->zero_dp_strategy == 3) {
    found.warning("strategy.overlap", context.plan.span("strategy.overlap_param_gather"),
                  "overlap_param_gather = false has no effect with zero_dp_strategy = 3: units are "
                  "gathered while others compute",
                  "overlap_param_gather = true, or zero_dp_strategy = 2 or less");
  } else if (!config->overlap_grad_reduce && config->zero_dp_strategy >= 2) {
    found.warning("strategy.overlap", context.plan.span("strategy.overlap_grad_reduce"),
                  cat("overlap_grad_reduce = false has no effect with zero_dp_strategy = ",
                      config->zero_dp_strategy,
                      ": sharded gradients are reduced as soon as they are computed"),
                  "overlap_grad_reduce = true, or zero_dp_strategy = 1 or less");
  }
}

void check_buffers(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr || !config->nccl_ub || config->fsdp_double_buffer) return;
  found.warning("strategy.nccl_ub", context.plan.span("strategy.nccl_ub"),
                "nccl_ub = true registers fixed buffers, so fsdp_double_buffer is on",
                "set fsdp_double_buffer = true explicitly");
}

void check_bucketing(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr || !config->disable_bucketing || config->zero_dp_strategy < 3) return;
  found.error("strategy.bucketing", context.plan.span("strategy.disable_bucketing"),
              "disable_bucketing = true puts all parameters into one bucket, but zero_dp_strategy "
              "= 3 gathers and frees them unit by unit",
              "disable_bucketing = false, or zero_dp_strategy = 2 or less");
}

constexpr std::array<Rule, 6> kRules = {{
    {.id = "strategy.unit_modules",
     .summary = "megatron_fsdp: megatron_fsdp_unit_modules names the model's own decoder layer",
     .explain =
         "A unit is a set of parameters that are gathered and freed together: each decoder layer, "
         "the embedding, the head, and the rest (the final norm) last. The key names the layer by "
         "its class in transformers, with its path or without: \"LlamaDecoderLayer\".\n\n"
         "If the class of another model is named, Megatron-FSDP finds no module of it and keeps "
         "the whole model in one unit, which is gathered at once. That is never intended, so "
         "automesh reports an error. Without the key, the units are the model's decoder layers.",
     .check = check_unit_modules},
    {.id = "strategy.average",
     .summary = "megatron_fsdp: average_in_collective excludes calculate_per_token_loss",
     .explain = "With calculate_per_token_loss gradients are sums, which are divided by the number "
                "of labels of the whole batch. A collective that averages would divide them by the "
                "number of ranks first, and the step would be too small by that factor.",
     .check = check_average},
    {.id = "strategy.meta_device",
     .summary = "megatron_fsdp: init_fsdp_with_meta_device needs sharded parameters or states",
     .explain =
         "On the meta device the model has no memory, and each rank fills its own shards. At level "
         "0 (no_shard) every rank keeps whole parameters, and nothing would fill them.",
     .check = check_meta_device},
    {.id = "strategy.overlap",
     .summary = "megatron_fsdp: the overlap keys agree with each other and with zero_dp_strategy "
                "(a warning)",
     .explain = "overlap_param_gather gathers parameters one unit ahead, and needs the hooks of "
                "overlap_grad_reduce. Sharded gradients (levels 2 and 3) cannot wait until the end "
                "of backward, so overlap_grad_reduce is always on at these levels. Sharded "
                "parameters (level 3) are gathered unit by unit, so overlap_param_gather is always "
                "on at this level.",
     .check = check_overlap},
    {.id = "strategy.nccl_ub",
     .summary = "megatron_fsdp: nccl_ub turns fsdp_double_buffer on (a warning)",
     .explain = "NCCL registers buffers by their address, so they must not move: units use two "
                "fixed buffers in turn, instead of one allocation for each unit.",
     .check = check_buffers},
    {.id = "strategy.bucketing",
     .summary = "megatron_fsdp: one bucket for all parameters cannot be freed unit by unit",
     .explain =
         "With disable_bucketing every collective carries the whole model: it is gathered once "
         "before the forward pass and reduced once after backward. At level 3 units are gathered "
         "and freed one by one, which is what saves memory; a single bucket would undo that.",
     .check = check_bucketing},
}};

}  // namespace

std::span<const Rule> megatron_fsdp_rules() { return kRules; }

}  // namespace am::rules
