#include "am/frameworks/job_shape.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "am/base/legal_values.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/config/field.h"
#include "am/config/schedule_names.h"
#include "am/layout/stages.h"

namespace am::frameworks {
namespace {

// PyTorch's names of the pipeline schedules, in the order of config::kScheduleNames.
constexpr std::array<std::string_view, config::kScheduleNames.size()> kTorchNames = {
    "GPipe",         "1F1B",     "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble",
    "ZBVZeroBubble", "DualPipeV"};

std::string folder_of_model(const config::Plan& plan) {
  const std::filesystem::path path = plan.resolve(plan.model.path).lexically_normal();
  const std::string folder = (path.extension() == ".json" ? path.parent_path() : path).string();
  // The path is written to files that must be UTF-8. Writing and parsing JSON replaces invalid
  // bytes in the path by U+FFFD.
  return Json::parse(dump_json(Json(folder), -1)).get<std::string>();
}

// Returns the layer numbers in a stage's list of module names, in ascending order.
std::vector<int64_t> layers_among(const config::Value& modules) {
  std::vector<int64_t> layers;
  for (const config::Value& module : modules.items) {
    const size_t dot = module.text.rfind('.');
    if (dot == std::string::npos) continue;
    const std::string_view before = std::string_view(module.text).substr(0, dot);
    const auto number = parse_integer(std::string_view(module.text).substr(dot + 1));
    if (number.has_value() && *number >= 0 &&
        (before == "layers" || ends_with(before, ".layers"))) {
      layers.push_back(*number);
    }
  }
  std::sort(layers.begin(), layers.end());
  return layers;
}

const config::FSDP2Config& other_strategy() {
  static const config::FSDP2Config kDefaults;
  return kDefaults;
}

// Returns the mesh sizes to write. For megatron_fsdp, dp_shard is the number of all data-parallel
// ranks, even with zero_dp_strategy = 0, which shards nothing.
mesh::MeshSizes written_sizes(const config::Plan& plan, mesh::MeshSizes sizes) {
  if (std::holds_alternative<config::MegatronFSDPConfig>(plan.strategy)) {
    sizes.dp_shard = sizes.dp();
    sizes.dp_replicate = 1;
  }
  return sizes;
}

}  // namespace

std::string plain_word(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '_' && c != '-') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

JobShape::JobShape(const ExportInput& input)
    : plan(input.plan),
      mesh(written_sizes(plan, input.layout.mesh.sizes())),
      fsdp2(std::get_if<config::FSDP2Config>(&plan.strategy)),
      megatron(std::get_if<config::MegatronFSDPConfig>(&plan.strategy)),
      ddp(std::get_if<config::DDPConfig>(&plan.strategy)),
      megatron_lm(std::get_if<config::MegatronConfig>(&plan.strategy)),
      options(fsdp2 != nullptr ? *fsdp2 : other_strategy()),
      global_batch(config::batch_shape(plan, mesh.dp()).sequences),
      microbatches(mesh.pp > 1 ? layout::pipeline_shape(plan, mesh.pp, mesh.dp()).microbatches : 1),
      model(folder_of_model(plan)),
      checkpointing(config::checkpointing_of(plan.strategy)) {
  const int64_t count = mesh.pp > 1 ? mesh.pp * plan.pipeline.virtual_stages : 1;
  const std::vector<int> of = layout::stage_of_layers(plan, input.model, count);
  for (int64_t stage = 0; stage < count; ++stage) {
    const auto [first, end] = std::equal_range(of.begin(), of.end(), static_cast<int>(stage));
    stages.emplace_back(first - of.begin(), end - of.begin());
  }
}

std::optional<bool> JobShape::reshards() const {
  const auto& reshard = options.reshard_after_forward;
  const bool* set = reshard.has_value() ? std::get_if<bool>(&*reshard) : nullptr;
  return set != nullptr ? std::optional(*set) : std::nullopt;
}

int64_t JobShape::ranks_per_node() const {
  const std::vector<int64_t> counts = divisors(world());
  return *std::prev(std::upper_bound(counts.begin(), counts.end(), plan.mesh.ranks_per_node));
}

int64_t JobShape::nodes() const { return world() / ranks_per_node(); }

std::optional<Json> JobShape::value(std::string_view key) const {
  const size_t dot = key.find('.');
  const config::FieldSpec* field = config::find_field(key.substr(0, dot), key.substr(dot + 1),
                                                      config::strategy_name(plan.strategy));
  return field != nullptr ? std::optional(field->get(plan)) : std::nullopt;
}

std::optional<std::string> JobShape::schedule_file() const {
  if (!config::is_schedule_file(plan.pipeline.schedule)) return std::nullopt;
  return plan.resolve(plan.pipeline.schedule).string();
}

std::string torch_schedule_name(std::string_view ours) {
  if (config::is_schedule_file(ours)) return "PipelineScheduleMulti";
  const auto& names = config::kScheduleNames;
  const auto at = std::find(names.begin(), names.end(), ours) - names.begin();
  return std::string(kTorchNames.at(static_cast<size_t>(at)));
}

std::optional<std::string> our_schedule_name(std::string_view any) {
  for (const std::string_view ours : config::kScheduleNames) {
    if (plain_word(any) == plain_word(ours)) return std::string(ours);
  }
  return std::nullopt;
}

int64_t default_virtual_stages(std::string_view schedule) {
  return schedule == "1f1b" || schedule == "gpipe" ? 1 : 2;
}

namespace {

// Returns the number of layers of each stage. Layers are divided evenly, and the first stages get
// the remainder. For this division, the embedding counts as `first_less` layers of the first stage
// and the head as `last_less` layers of the last stage.
std::vector<int64_t> spread_layers(int64_t layers, int64_t stages, const PipelineKeys& keys) {
  const int64_t all = layers + keys.first_less + keys.last_less;
  std::vector<int64_t> counts;
  for (int64_t stage = 0; stage < stages; ++stage) {
    counts.push_back(all / stages + (stage < all % stages ? 1 : 0));
  }
  counts.front() -= keys.first_less;
  counts.back() -= keys.last_less;
  return counts;
}

// Returns the number of stages of all `pp` pipeline ranks together, computed from the setting
// layers_per_stage; 0 after an error. `one_a_rank`: true if the schedule requires one stage per
// rank, false if the schedule requires two or more.
int64_t stages_by_layers(PlanBuilder& builder, const PipelineKeys& keys, int64_t pp,
                         bool one_a_rank) {
  Source& source = builder.source();
  const int64_t each = source.integer(keys.layers_per_stage, 1).value_or(1);
  const int64_t layers = builder.model()->num_hidden_layers + keys.first_less + keys.last_less;
  int64_t stages = layers / each + (layers % each > 0 ? 1 : 0);
  const std::string round = keys.round.empty() ? "" : source.text(keys.round).value_or("");
  if (round == "down") stages -= stages % pp;
  if (round == "up" && stages % pp > 0) stages += pp - stages % pp;
  const std::string made =
      cat(each, " layers per stage make ", stages, " stages from ", layers, " layers");
  if (stages == 0 || stages % pp != 0) {
    source.refuse(keys.layers_per_stage, made,
                  cat("the number of stages must be a multiple of pp_size = ", pp));
    return 0;
  }
  if (one_a_rank != (stages == pp)) {
    source.refuse(
        keys.layers_per_stage, cat(made, ", but pp_size = ", pp),
        one_a_rank
            ? "choose a number that makes one stage per rank, as this schedule needs"
            : "choose a number that makes two or more stages per rank, as this schedule needs");
    return 0;
  }
  return stages;
}

}  // namespace

void set_pipeline(PlanBuilder& builder, const PipelineKeys& keys, int64_t pp) {
  Source& source = builder.source();
  const std::string named = source.text(keys.schedule).value_or(keys.absent);
  const std::string file = source.text(keys.file).value_or("");
  const auto schedule = file.empty() ? our_schedule_name(named) : std::optional(file);
  if (!schedule.has_value()) {
    return source.refuse(keys.schedule, cat("plans do not support the schedule \"", named, "\""),
                         cat("legal values: ", keys.known));
  }
  builder.set("pipeline.schedule", *schedule, keys.schedule);
  if (source.has(keys.modules)) {
    source.skip(keys.layers_per_stage);  // the lists of modules take precedence
    if (!keys.round.empty()) source.skip(keys.round);
    return set_stages(builder, keys.modules, pp);
  }
  const int64_t by_default = default_virtual_stages(*schedule);
  int64_t stages = by_default * pp;
  const bool given = source.has(keys.layers_per_stage);
  if (given && builder.model() == nullptr) {
    builder.lose(
        keys.layers_per_stage,
        "the pipeline's stages, which depend on the number of layers: name the model with --model");
  } else if (given) {
    stages = stages_by_layers(builder, keys, pp, by_default == 1);
  }
  if (!keys.round.empty()) source.skip(keys.round);
  if (stages == 0) return;
  if (builder.model() == nullptr) {
    builder.set("pipeline.virtual_stages", stages / pp, keys.schedule);
    if (keys.first_less + keys.last_less > 0) {
      builder.note(
          "the framework counts the embedding and the head as layers when it assigns layers to "
          "stages; without --model the plan assigns the layers evenly");
    }
    return;
  }
  const std::vector<int64_t> counts =
      spread_layers(builder.model()->num_hidden_layers, stages, keys);
  if (*std::min_element(counts.begin(), counts.end()) < 1) {
    source.refuse(
        given ? keys.layers_per_stage : keys.schedule,
        cat(builder.model()->num_hidden_layers, " layers are too few for ", stages, " stages"),
        "every stage needs at least one layer");
    return;
  }
  set_stages(builder, counts, pp, given ? keys.layers_per_stage : keys.schedule);
}

void set_stages(PlanBuilder& builder, const std::vector<int64_t>& layers, int64_t pp,
                std::string_view path) {
  const auto stages = static_cast<int64_t>(layers.size());
  if (stages == 0 || stages % pp != 0) {
    builder.source().refuse(path,
                            cat(stages, " stages cannot be divided among pp_size = ", pp, " ranks"),
                            "the number of stages must be a multiple of pp_size");
    return;
  }
  builder.set("pipeline.virtual_stages", stages / pp, path);
  std::vector<int64_t> firsts;
  std::vector<int> given;
  int64_t total = 0;
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    if (stage > 0) firsts.push_back(total);
    total += layers[stage];
    given.insert(given.end(), static_cast<size_t>(layers[stage]), static_cast<int>(stage));
  }
  if (given != layout::stages_of_even_layers(total, stages)) {
    builder.set("pipeline.split_points", firsts, path);
  }
}

void set_stages(PlanBuilder& builder, std::string_view path, int64_t pp) {
  const config::Value* parts = builder.source().take(path);
  if (parts == nullptr) return;
  constexpr size_t kMostStages = 1 << 16;
  std::vector<int64_t> counts;
  int64_t next = 0;
  bool right = parts->kind == config::Value::Kind::kArray && parts->items.size() < kMostStages;
  for (const config::Value& part : parts->items) {
    const std::vector<int64_t> layers = layers_among(part);
    for (const int64_t layer : layers) right = right && layer == next++;
    right = right && !layers.empty();
    counts.push_back(static_cast<int64_t>(layers.size()));
  }
  if (right) {
    set_stages(builder, counts, pp, path);
  } else {
    builder.source().refuse(
        path, cat(path, " does not list the layers of each stage in order"),
        "each stage is a list of its layers; the first stage begins with \"layers.0\"");
  }
}

void set_batches(PlanBuilder& builder, int64_t local, int64_t micro, int64_t pp,
                 std::string_view path) {
  if (pp == 1) {
    builder.set("train.micro_batch_size", local, path);
    return;
  }
  builder.set("train.micro_batch_size", micro, path);
  if (micro < 1 || local % micro != 0) {
    builder.source().refuse(
        path, cat("the batch of ", local, " cannot be divided into micro-batches of ", micro),
        "choose a micro-batch size that divides the batch");
  } else {
    builder.set("pipeline.microbatches", local / micro, path);
  }
}

}  // namespace am::frameworks
