// The rules of each topic; registry.cpp joins them. To add a rule, add an entry to its topic's
// file: an id, a line, its text for `am-plan explain`, and a check. A new topic is a file and a
// line in registry.cpp.
#pragma once

#include <span>

#include "am/planner/rules.h"

namespace am::planner {

std::span<const Rule> file_rules();           // plan.*, json.*: what the loaders report
std::span<const Rule> model_rules();          // model.*
std::span<const Rule> mesh_rules();           // mesh.*
std::span<const Rule> strategy_rules();       // strategy.*
std::span<const Rule> megatron_fsdp_rules();  // strategy.*: keys of MegatronFSDPConfig
std::span<const Rule> no_effect_rules();      // strategy.no_effect
std::span<const Rule> expert_rules();         // experts.*
std::span<const Rule> tp_rules();             // tp.*
std::span<const Rule> pipeline_rules();       // pp.*
std::span<const Rule> context_rules();        // cp.*, seq.cp
std::span<const Rule> schedule_rules();       // schedule.*: what the reader of schedules reports
std::span<const Rule> batch_rules();          // batch.*, seq.*
std::span<const Rule> training_rules();       // data.*, train.*, scheduler.*, checkpoint.*
std::span<const Rule> optimizer_rules();      // optimizer.*
std::span<const Rule> lora_rules();           // lora.*
std::span<const Rule> cluster_rules();        // cluster.*, csv.*
std::span<const Rule> runtime_rules();        // runtime.*, launch.*: what am-run reports

// "tp_size = 2, 4 or 8": of the sizes that divide `length` those nearest to the plan's that no
// other rule refuses. Empty when there is none.
std::string tp_sizes_help(const RuleContext& context, int64_t length);

// The first layer in which the TP plan hands out whole heads; null: it leaves attention alone, and
// any tp will do.
const model::LayerSpec* layer_of_cut_heads(const RuleContext& context);

}  // namespace am::planner
