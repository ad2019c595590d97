#include "am/inspect/stored_catalog.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/config/plan.h"
#include "am/inspect/facts.h"
#include "am/inspect/pickle_json.h"
#include "am/layout/layout.h"
#include "am/layout/runs.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/stored/dcp_source.h"

namespace am::inspect {

namespace fs = std::filesystem;

namespace {

// Returns the training state of a checkpoint of am-run as named values. For example,
// "checkpoint.samples" is the number of sequences that training has read.
Json info_values(const run_folder::CheckpointInfo& info) {
  Json json = Json::object();
  json["checkpoint.step"] = info.step;
  json["checkpoint.world_size"] = info.world_size;
  json["checkpoint.skipped_steps"] = info.skipped_steps;
  if (info.samples) json["checkpoint.samples"] = *info.samples;
  if (info.loss_scale) {
    json["checkpoint.loss_scale"] = {{"scale", info.loss_scale->scale},
                                     {"growth_tracker", info.loss_scale->growth_tracker}};
  }
  if (!info.facts.is_object()) return json;
  for (const auto& [key, value] : info.facts.items()) json[cat("checkpoint.facts.", key)] = value;
  return json;
}

}  // namespace

StoredCatalog::StoredCatalog(std::unique_ptr<stored::TensorSource> source)
    : source_(std::move(source)), mesh_(mesh::MeshSizes{}) {
  const fs::path folder = folder_of(source_->path());
  const fs::path config_file = source_->config_file();
  if (config_file.empty()) {
    config_problem_ = cat(folder.string(), " has no config.json");
  } else {
    Diagnostics found;
    config_ = model::load_config(config_file, found);
    if (config_) layout::check_runnable(*config_, found);
    if (!found.ok()) config_problem_ = first_error(found);
  }
  tokenizer_ = tokenizer_beside(folder, config_ ? config_->vocab_size : 0);
  if (source_->format() == "automesh") read_checkpoint_facts();
  if (!step_) step_ = source_->step();
  for (const auto& stored : source_->tensors()) parameters_.push_back(held(stored));
  for (const auto& stored : source_->optimizer_tensors()) states_.push_back(held(stored));
  title_ = make_title(config_ ? config_->model_type : "weights",
                      fs::absolute(source_->path()).lexically_normal().filename().string(), mesh_);
}

// Reads the layout, the LoRA settings, the tokenizer and the training state that a checkpoint of
// am-run records. Plugins that the plan of the checkpoint names are never loaded, not even if the
// command line allows plugins.
void StoredCatalog::read_checkpoint_facts() {
  const fs::path folder = folder_of(source_->path());
  const run_folder::CheckpointInfo info = run_folder::read_checkpoint_info(folder);
  step_ = info.step;
  checkpoint_info_ = info_values(info);
  mesh_ = mesh::MeshLayout(info.mesh);
  Diagnostics found;
  if (!config_ || !fs::exists(folder / "plan.toml")) return;
  const auto plan = config::load_plan(folder / "plan.toml", {}, found);
  if (!plan) return;
  lora_ = plan->lora;
  const bool beside = tokenizer_.name != "bytes" && !tokenizer_.name.empty();
  if (!beside) tokenizer_ = tokenizer_of(*plan, config_->vocab_size);
  const auto layout = layout::build_layout(*plan, *config_, info.mesh, found);
  if (!layout) {
    note_ = cat("the placements are not known (", first_error(found),
                "), so the shards are those that the checkpoint's index lists");
    return;
  }
  for (const layout::ParameterLayout& parameter : layout->parameters) {
    placements_[parameter.name] = parameter.placements(mesh_);
  }
}

// Returns the source of the stored values that are not tensors. If the folder of a checkpoint of
// am-run also contains a checkpoint of torch.distributed.checkpoint (DCP), returns a second source,
// which reads the DCP files. Otherwise, returns source_.
const stored::TensorSource& StoredCatalog::values_source() const {
  const fs::path folder = folder_of(source_->path());
  if (source_->format() != "automesh" || !stored::is_dcp_source(folder)) return *source_;
  if (!values_) values_ = stored::open_dcp_source(folder);
  return *values_;
}

std::vector<std::string> StoredCatalog::value_names() const {
  std::vector<std::string> names = values_source().values();
  if (checkpoint_info_) {
    for (const auto& [name, value] : checkpoint_info_->items()) names.push_back(name);
  }
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return natural_less(a, b); });
  return names;
}

Json StoredCatalog::value(std::string_view name) const {
  if (checkpoint_info_ && checkpoint_info_->contains(name)) return checkpoint_info_->at(name);
  Json json = nullptr;
  values_source().visit_value(name,
                              [&](const formats::PickleValue& value) { json = to_json(value); });
  return json;
}

// Returns whether the mesh is known. Checkpoints of am-run record their mesh. Files of Hugging Face
// and of torch.save count as one rank. Sharded formats of other frameworks do not record a mesh.
bool StoredCatalog::has_mesh() const {
  const std::string format = source_->format();
  return format == "automesh" || format == "huggingface" || format == "torch";
}

HeldParameter StoredCatalog::held(const stored::StoredTensor& stored) const {
  HeldParameter parameter;
  parameter.name = stored.name;
  parameter.shape = stored.shape;
  parameter.dtype = stored.dtype;
  parameter.shards = stored.shards;
  const auto placements = placements_.find(stored.name);
  if (placements != placements_.end()) parameter.placements = placements->second;
  return parameter;
}

Json StoredCatalog::info() {
  Json json = {{"target", source_->path().string()}, {"kind", "checkpoint"}};
  json["format"] = source_->format();
  json["model_type"] = config_ ? Json(config_->model_type) : Json(nullptr);
  add_totals(parameters_, json);
  if (step_) json["step"] = *step_;
  json["optimizer_tensors"] = source_->optimizer_tensors().size();
  const std::vector<std::string> values = source_->values();
  if (!values.empty()) json["values"] = values.size();
  if (has_mesh()) add_mesh(mesh_, json);
  json["compute_dtype"] = formats::torch_name(compute_dtype_);
  json["tokenizer"] = name_or_null(tokenizer_);
  Json damage = Json::array();
  for (const stored::StoredProblem& problem : source_->damage()) {
    damage.push_back({{"what", problem.what}, {"where", problem.where}});
  }
  if (!damage.empty()) json["damage"] = damage;
  const std::string note = note_.empty() ? source_->note() : note_;
  if (!note.empty()) json["note"] = note;
  if (!config_problem_.empty()) json["cannot_run"] = config_problem_;
  return json;
}

std::string StoredCatalog::note() const {
  const std::vector<stored::StoredProblem> damage = source_->damage();
  if (damage.empty()) return {};
  const size_t more = damage.size() - 1;
  return cat("damaged: ", damage.front().where, ": ", damage.front().what,
             more == 0 ? "" : cat("; and ", more, " more, which `info` lists"));
}

std::vector<HeldBytes> StoredCatalog::held_bytes() {
  // Contains one entry per rank. The first loop adds the ranks of mesh_, and the second loop adds
  // further ranks: if the mesh is not known, as for checkpoints of other frameworks, mesh_ has only
  // one rank.
  std::map<int64_t, HeldBytes> held;
  for (int64_t rank = 0; rank < mesh_.world_size(); ++rank) held[rank].rank = rank;
  for (const HeldParameter& parameter : parameters_) {
    const auto element = formats::dtype_size(parameter.dtype);
    for (const HeldShard& shard : parameter.shards) {
      HeldBytes& bytes = held[shard.rank];
      bytes.rank = shard.rank;
      bytes.sharded += shard.box.numel() * element;
    }
  }
  std::vector<HeldBytes> ranks;
  for (const auto& [rank, bytes] : held) ranks.push_back(bytes);
  return ranks;
}

}  // namespace am::inspect
