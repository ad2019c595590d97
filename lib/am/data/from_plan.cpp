#include "am/data/from_plan.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "am/base/file.h"
#include "am/data/tokenizer.h"

namespace am::data {

std::string tokenizer_name(const config::Plan& plan) {
  const std::string& name = plan.data.tokenizer;
  if (name == "bytes") return name;
  if (name != "auto") return plan.resolve(name).string();
  const auto found = find_tokenizer(folder_of(plan.resolve(plan.model.path)));
  return found ? found->string() : "bytes";
}

std::optional<int64_t> eod_token_id(const config::Plan& plan) {
  if (!plan.data.eod_token) return std::nullopt;
  if (const auto* id = std::get_if<int64_t>(&*plan.data.eod_token)) return *id;
  const auto tokenizer = make_tokenizer(tokenizer_name(plan));
  return tokenizer->required_token_id(std::get<std::string>(*plan.data.eod_token));
}

std::vector<DataSpec> data_specs(const config::Plan& plan, int64_t vocab_size) {
  DataSpec spec;
  spec.tokenizer = tokenizer_name(plan);
  spec.token_dtype = plan.data.token_dtype;
  spec.vocab_size = vocab_size;
  spec.seed = plan.train.seed;
  spec.eod_token = eod_token_id(plan);
  spec.loss_on = plan.data.loss_on == "all"    ? LossOn::kAll
                 : plan.data.loss_on == "last" ? LossOn::kLast
                                               : LossOn::kAssistant;
  spec.max_length = plan.data.max_length;
  spec.drops_long = plan.data.on_long == "drop";
  spec.packs = plan.data.packing;
  spec.columns = plan.data.columns;
  spec.splits_special = plan.data.split_special_tokens;
  const std::string& prepared = plan.data.prepared;
  if (prepared != "none") spec.prepared = plan.resolve(prepared.empty() ? "prepared" : prepared);
  // All ranks of a node tokenise at the same time, so they share its processors.
  const int64_t world = std::max<int64_t>(1, plan.mesh.world_size);
  const int64_t ranks = std::clamp<int64_t>(plan.mesh.ranks_per_node, 1, world);
  spec.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / ranks));
  std::vector<DataSpec> specs;
  const auto add = [&](const std::string& kind, const std::vector<std::string>& paths) {
    specs.push_back(spec);
    specs.back().kind = kind;
    for (const std::string& path : paths) specs.back().paths.push_back(plan.resolve(path));
  };
  for (const auto& source : plan.data.sources) add(plan.data.kind_of(source), source.path);
  if (specs.empty()) add(plan.data.kind, plan.data.path);
  return specs;
}

config::Plan with_validation_data(config::Plan plan) {
  plan.data.path = plan.validation.path;
  plan.data.sources.clear();
  plan.data.shuffle = false;
  plan.train.seed += 1;
  plan.train.epochs = 1;
  return plan;
}

std::vector<std::pair<std::string, config::Plan>> validation_plans(const config::Plan& plan) {
  std::vector<std::pair<std::string, config::Plan>> plans;
  const config::ValidationSection& validation = plan.validation;
  if (!validation.path.empty() || validation.sets.empty()) {
    plans.emplace_back("", with_validation_data(plan));
  }
  for (const config::ValidationSetSection& set : validation.sets) {
    config::Plan& with = plans.emplace_back(set.name, with_validation_data(plan)).second;
    with.data.path = set.path;
    with.data.kind = validation.kind_of(set, with.data);
  }
  return plans;
}

BatchReader open_batches(const config::Plan& plan, int64_t vocab_size,
                         const std::function<void(const std::string&)>& log) {
  std::vector<DataSpec> specs = data_specs(plan, vocab_size);
  std::vector<DataSource> sources;
  for (size_t i = 0; i < specs.size(); ++i) {
    SampleOptions options = {.seq_len = plan.train.seq_len};
    specs[i].log = log;
    if (plan.data.reset_position_ids) options.document_end = specs[i].eod_token;
    sources.push_back({open_samples(specs[i], options)});
    sources.back().epochs = plan.train.epochs;
    if (plan.data.sources.empty()) continue;
    sources.back().weight = plan.data.sources[i].weight;
    sources.back().epochs = plan.data.sources[i].epochs;
  }
  return {std::move(sources),
          plan.train.seq_len,
          {.seed = plan.train.seed, .shuffle = plan.data.shuffle}};
}

}  // namespace am::data
