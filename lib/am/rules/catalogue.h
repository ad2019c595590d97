// The catalogue of rules: one function per topic, which returns the topic's rules. The comment at
// each function lists the ids of its rules. check.cpp joins the rules of all topics. To add a rule,
// add an entry to its topic's file: an id, a one-line summary, the text of `am-plan explain`, and a
// check. To add a topic, add a file, declare its function here, and call the function in check.cpp.
#pragma once

#include <span>

#include "am/rules/check.h"

namespace am::rules {

std::span<const Rule> file_rules();      // ids plan.*, json.*, exchange.*: reported by the readers
std::span<const Rule> model_rules();     // ids model.*
std::span<const Rule> mesh_rules();      // ids mesh.*
std::span<const Rule> strategy_rules();  // ids strategy.*, *.strategy, ep.experts
std::span<const Rule> megatron_fsdp_rules();  // ids strategy.*: keys of MegatronFSDPConfig
// ids strategy.*, pp.megatron: keys of MegatronConfig
std::span<const Rule> megatron_rules();
std::span<const Rule> no_effect_rules();  // ids strategy.no_effect
std::span<const Rule> expert_rules();     // ids experts.*
std::span<const Rule> tp_rules();         // ids tp.*
std::span<const Rule> pipeline_rules();   // ids pp.*
std::span<const Rule> context_rules();    // ids cp.*, seq.cp
std::span<const Rule> schedule_rules();   // ids schedule.*: on schedule files
std::span<const Rule> batch_rules();      // ids batch.*, seq.length, seq.sp
std::span<const Rule> data_rules();       // ids data.*, validation.*
// ids train.*, scheduler.*, checkpoint.*, metrics.trace, optimizer.ema_decay
std::span<const Rule> training_rules();
std::span<const Rule> optimizer_rules();  // ids optimizer.*
std::span<const Rule> lora_rules();       // ids lora.*
std::span<const Rule> cluster_rules();    // ids cluster.*, csv.*, predict.*
std::span<const Rule> runtime_rules();    // ids runtime.*, launch.*

// Returns a hint with legal values of tp_size near the plan's value, for example "tp_size = 2, 4 or
// 8". Each of these values divides `length` and satisfies the rules on attention heads and on the
// world size. Returns an empty text if no value is legal.
std::string tp_sizes_help(const RuleContext& context, int64_t length);

// Returns the first layer whose query projection tp shards by heads. Returns null without a layout,
// or if the TP plan shards no query projection by heads; the number of heads then does not restrict
// tp.
const model::LayerSpec* layer_of_cut_heads(const RuleContext& context);

}  // namespace am::rules
