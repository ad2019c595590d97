#include "am/checkpoint/megatron_files.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/formats/pickle_writer.h"
#include "am/formats/torch_slice.h"
#include "am/frameworks/megatron/optimizer_groups.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

using formats::PickleWriter;
using formats::Settings;

constexpr const char* kDecay = "weight_decay";
constexpr const char* kSharding = "fully_reshardable";

Settings without(const char* name, Settings settings) {
  std::erase_if(settings, [&](const auto& each) { return each.first == name; });
  return settings;
}

// Writes a dict. `write` must write the dict's items, for each item first the key and then the
// value.
template <typename Write>
void dict(PickleWriter& pickle, const Write& write) {
  pickle.empty_dict();
  pickle.open_mark();
  write();
  pickle.close_dict_items();
}
template <typename Value>
void item(PickleWriter& pickle, std::string_view key, const Value& value) {
  pickle.text(key);
  formats::write_setting(pickle, value);
}

void write_group(PickleWriter& pickle, const MegatronGroup& group, int64_t updates) {
  dict(pickle, [&] {
    item(pickle, "wd_mult", group.wd_mult);
    item(pickle, "lr_mult", 1.0);
    item(pickle, "is_expert_parallel", group.experts);
    item(pickle, "is_decoupled_lr", false);
    item(pickle, "default_config", true);
    item(pickle, "bias_correction", true);
    item(pickle, "step", updates);
    for (const auto& [name, value] : group.settings) {
      item(pickle, name == "initial_lr" ? "max_lr" : name, value);
    }
  });
}

// Writes the state of Megatron's optimizer. `experts`: for the experts' parameters; otherwise for
// all other parameters.
void write_optimizer(PickleWriter& pickle, const MegatronOptimizer& optimizer, bool experts) {
  dict(pickle, [&] {
    pickle.text("optimizer");
    dict(pickle, [&] {
      pickle.text("param_groups");
      pickle.empty_list();
      pickle.open_mark();
      for (const MegatronGroup& group : optimizer.groups) {
        if (group.experts == experts) write_group(pickle, group, optimizer.updates);
      }
      pickle.close_list_items();
    });
    item(pickle, "param_state_sharding_type", std::string(kSharding));
  });
}

// Writes the state of Megatron's learning-rate schedule. With --override-opt-param-scheduler,
// Megatron reads only num_steps and takes all other values from its own options.
void write_schedule(PickleWriter& pickle, const MegatronOptimizer& optimizer) {
  const Settings& settings = optimizer.groups.front().settings;
  const double peak = formats::number_setting(settings, "initial_lr").value_or(0.0);
  const double decay = formats::number_setting(settings, kDecay).value_or(0.0);
  dict(pickle, [&] {
    item(pickle, "max_lr", peak);
    item(pickle, "min_lr", 0.0);
    item(pickle, "lr_warmup_steps", int64_t{0});
    item(pickle, "lr_decay_steps", int64_t{1});
    item(pickle, "lr_decay_style", std::string("constant"));
    item(pickle, "num_steps", optimizer.samples);
    item(pickle, "start_wd", decay);
    item(pickle, "end_wd", decay);
    item(pickle, "wd_incr_style", std::string("constant"));
    item(pickle, "wd_incr_steps", int64_t{0});
  });
}

}  // namespace

MegatronOptimizer megatron_optimizer(const fs::path& source,
                                     const std::vector<FilledTensor>& parameters,
                                     ExportedOptimizer& optimizer) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kFormat, cat(source.string(), ": ", what),
                "without --optimizer only the weights are exported");
  };
  MegatronOptimizer result;
  std::vector<std::string> firsts;  // the first parameter of each group of the result
  bool noted = false;
  for (const FilledTensor& parameter : parameters) {
    const auto from = std::find_if(
        optimizer.groups.begin(), optimizer.groups.end(), [&](const ValueGroup& group) {
          return std::find(group.names.begin(), group.names.end(), parameter.name) !=
                 group.names.end();
        });
    if (from == optimizer.groups.end()) continue;  // a frozen parameter
    const MegatronGroup own = {frameworks::is_vector(parameter.name, parameter.shape) ? 0.0 : 1.0,
                               frameworks::is_of_experts(parameter.name), from->settings};
    const auto known =
        std::find_if(result.groups.begin(), result.groups.end(), [&](const auto& group) {
          return group.wd_mult == own.wd_mult && group.experts == own.experts;
        });
    if (known == result.groups.end()) {
      result.groups.push_back(own);
      firsts.push_back(parameter.name);
      continue;
    }
    if (known->settings == own.settings) continue;
    const std::string& first = firsts[static_cast<size_t>(known - result.groups.begin())];
    if (without(kDecay, known->settings) != without(kDecay, own.settings)) {
      fail(cat("the optimizer has different settings for ", first, " and ", parameter.name,
               ", but Megatron has one group for both parameters"));
    }
    if (std::exchange(noted, true)) continue;
    optimizer.notes.push_back(cat(first, " and ", parameter.name,
                                  " have different weight decay, but Megatron applies its own: "
                                  "--weight-decay to matrices, none to vectors"));
  }
  const auto updates = optimizer.common_steps();
  if (!updates) fail("Megatron needs the same number of updates for all parameters");
  result.updates = static_cast<int64_t>(*updates);
  return result;
}

void write_megatron_files(const fs::path& folder, const std::optional<int64_t>& step,
                          const std::optional<MegatronOptimizer>& optimizer) {
  PickleWriter common;
  dict(common, [&] {
    item(common, "checkpoint_version", 3.0);
    if (step) item(common, "iteration", *step);
    // This metadata describes the tensor names to Megatron: each layer has its own tensors, and one
    // tensor contains all experts of a layer.
    common.text("content_metadata");
    dict(common, [&] {
      item(common, "singleton_local_shards", false);
      item(common, "non_homogeneous_layers", true);
      item(common, "chained_optim_avoid_prefix", true);
      if (optimizer) item(common, "distrib_optim_sharding_type", std::string(kSharding));
    });
    if (!optimizer) return;
    const bool experts = std::any_of(optimizer->groups.begin(), optimizer->groups.end(),
                                     [](const MegatronGroup& group) { return group.experts; });
    common.text("optimizer");
    if (experts) {
      // Assumes expert parallelism, with which Megatron has a second optimizer for the experts.
      dict(common, [&] {
        common.integer(0);
        write_optimizer(common, *optimizer, false);
        common.integer(1);
        write_optimizer(common, *optimizer, true);
      });
    } else {
      write_optimizer(common, *optimizer, false);
    }
    common.text("opt_param_scheduler");
    write_schedule(common, *optimizer);
  });
  write_file_atomically(folder / "common.pt", formats::value_slice(std::move(common).finish()));
  const Json metadata = {{"sharded_backend", "torch_dist"},
                         {"sharded_backend_version", 1},
                         {"common_backend", "torch"},
                         {"common_backend_version", 1}};
  write_file_atomically(folder / "metadata.json", metadata.dump());
}

}  // namespace am::checkpoint
