#include "am/inspect/stored_view.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/checkpoint.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/inspect/facts.h"
#include "am/inspect/pickle_json.h"
#include "am/nn/runnable.h"
#include "am/planner/layout.h"
#include "am/stored/dcp_source.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::inspect {

namespace fs = std::filesystem;

namespace {

// A source whose reads are the places where loading can be stopped.
class StoppableSource : public stored::TensorSource {
 public:
  StoppableSource(const stored::TensorSource& source, const Between& between)
      : source_(source), between_(between) {}

  std::string format() const override { return source_.format(); }
  fs::path path() const override { return source_.path(); }
  const std::vector<stored::StoredTensor>& tensors() const override { return source_.tensors(); }
  const std::vector<stored::StoredTensor>& optimizer_tensors() const override {
    return source_.optimizer_tensors();
  }
  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    if (between_) between_();
    source_.read(name, box, out);
  }
  fs::path config_file() const override { return source_.config_file(); }

 private:
  const stored::TensorSource& source_;
  const Between& between_;
};

// Elements that visit_parts reads at once: of float32 they are still in a core's cache when they
// are looked at.
constexpr int64_t kReadBlock = int64_t{256} << 10;

fs::path folder_of(const stored::TensorSource& source) {
  return fs::is_directory(source.path()) ? source.path() : source.path().parent_path();
}

// "checkpoint.samples": the place in the data, and what else is no tensor and no setting.
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

// The plan that runs a model of one rank in one dtype.
config::Plan plan_of_one(at::ScalarType dtype) {
  config::Plan plan;
  plan.strategy = config::DDPConfig{};
  plan.model.dtype = tensor::dtype_name(dtype);
  plan.mesh.world_size = 1;
  return plan;
}

}  // namespace

StoredView::StoredView(std::unique_ptr<stored::TensorSource> source)
    : source_(std::move(source)), mesh_(mesh::MeshSizes{}) {
  const fs::path folder = folder_of(*source_);
  const fs::path config_file = source_->config_file();
  if (config_file.empty()) {
    config_problem_ = cat(folder.string(), " has no config.json");
  } else {
    Diagnostics found;
    config_ = model::load_config(config_file, found);
    if (config_) nn::check_runnable(*config_, found);
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

// An am-run checkpoint also says how it was laid out, and which tokenizer made its data. Its plan
// is data: a plugin that it names is not loaded, whatever the command line allows.
void StoredView::read_checkpoint_facts() {
  const fs::path folder = folder_of(*source_);
  const run_folder::CheckpointInfo info = run_folder::read_checkpoint_info(folder);
  step_ = info.step;
  checkpoint_info_ = info_values(info);
  mesh_ = mesh::MeshLayout(info.mesh);
  Diagnostics found;
  if (!config_ || !fs::exists(folder / "plan.toml")) return;
  const auto plan = config::load_plan(folder / "plan.toml", {}, found);
  if (!plan) return;
  if (!fs::exists(folder / "tokenizer.json")) tokenizer_ = tokenizer_of(*plan, config_->vocab_size);
  const auto layout = planner::build_layout(*plan, *config_, info.mesh, found);
  if (!layout) {
    note_ =
        cat("placements are not named, shards are those of the shard table: ", first_error(found));
    return;
  }
  for (const planner::ParameterLayout& parameter : layout->parameters) {
    placements_[parameter.name] = parameter.placements(mesh_);
  }
}

// A DCP folder's are those of its `.metadata`; beside am-run's index lies one too.
const stored::TensorSource& StoredView::values_source() const {
  const fs::path folder = folder_of(*source_);
  if (source_->format() != "automesh" || !stored::is_dcp_source(folder)) return *source_;
  if (!values_) values_ = stored::open_dcp_source(folder);
  return *values_;
}

std::vector<std::string> StoredView::value_names() const {
  std::vector<std::string> names = values_source().values();
  if (checkpoint_info_) {
    for (const auto& [name, value] : checkpoint_info_->items()) names.push_back(name);
  }
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return natural_less(a, b); });
  return names;
}

Json StoredView::value(std::string_view name) const {
  if (checkpoint_info_ && checkpoint_info_->contains(name)) return checkpoint_info_->at(name);
  Json json = nullptr;
  values_source().see_value(name,
                            [&](const formats::PickleValue& value) { json = to_json(value); });
  return json;
}

// Files of several ranks whose arrangement nothing here says have none.
bool StoredView::has_mesh() const {
  const std::string format = source_->format();
  return format == "automesh" || format == "huggingface" || format == "torch";
}

HeldParameter StoredView::held(const stored::StoredTensor& stored) const {
  HeldParameter parameter;
  parameter.name = stored.name;
  parameter.shape = stored.shape;
  parameter.dtype = tensor::scalar_type(stored.dtype);
  for (const stored::StoredShard& shard : stored.shards) {
    parameter.shards.push_back({shard.rank, shard.box});
  }
  const auto placements = placements_.find(stored.name);
  if (placements != placements_.end()) parameter.placements = placements->second;
  return parameter;
}

Json StoredView::info() {
  Json json = {{"target", source_->path().string()}, {"kind", "checkpoint"}};
  json["format"] = source_->format();
  json["model_type"] = config_ ? Json(config_->model_type) : Json(nullptr);
  add_totals(parameters_, json);
  if (step_) json["step"] = *step_;
  json["optimizer_tensors"] = source_->optimizer_tensors().size();
  const std::vector<std::string> values = source_->values();
  if (!values.empty()) json["values"] = values.size();
  if (has_mesh()) add_mesh(mesh_, json);
  json["compute_dtype"] = tensor::dtype_name(compute_dtype_);
  json["tokenizer"] = tokenizer_.name.empty() ? Json(nullptr) : Json(tokenizer_.name);
  const std::string note = note_.empty() ? source_->note() : note_;
  if (!note.empty()) json["note"] = note;
  if (!config_problem_.empty()) json["cannot_run"] = config_problem_;
  return json;
}

at::Tensor StoredView::read(const HeldParameter& parameter, const mesh::Box& box) {
  const auto whole = assembled_.find(parameter.name);
  if (whole != assembled_.end()) {
    return tensor::view_box(whole->second, Shape(parameter.shape.size(), 0), box);
  }
  at::Tensor out = at::empty(box.shape, at::TensorOptions(parameter.dtype));
  if (box.numel() > 0) checkpoint::read(*source_, parameter.name, box, out);
  return out;
}

void StoredView::visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                             const PartVisit& visit) {
  bool goes_on = true;
  stored::for_each_row_block(box, kReadBlock, [&](const mesh::Box& block) {
    if (goes_on) goes_on = visit({read(parameter, block), block});
  });
}

std::vector<HeldBytes> StoredView::held_bytes() {
  // By rank, of which other frameworks' folders may have more than the mesh says.
  std::map<int64_t, HeldBytes> held;
  for (int64_t rank = 0; rank < mesh_.world_size(); ++rank) held[rank].rank = rank;
  for (const HeldParameter& parameter : parameters_) {
    const auto element = static_cast<int64_t>(c10::elementSize(parameter.dtype));
    for (const HeldShard& shard : parameter.shards) {
      HeldBytes& bytes = held[shard.rank];
      bytes.rank = shard.rank;
      bytes.sharded += shard.box.numel() * element;
    }
  }
  std::vector<HeldBytes> ranks;
  for (const auto& [rank, bytes] : held) ranks.push_back(bytes);
  for (const auto& [name, value] : assembled_) {
    ranks.front().unsharded += static_cast<int64_t>(value.nbytes());
  }
  return ranks;
}

std::vector<HeldShard> StoredView::usable_boxes(const HeldParameter& parameter) {
  if (!assembled_.contains(parameter.name)) return parameter.shards;
  std::vector<HeldShard> boxes = {{0, mesh::Box::whole(parameter.shape)}};
  for (const HeldShard& shard : parameter.shards) {
    if (shard.rank != 0) boxes.push_back(shard);
  }
  return boxes;
}

std::vector<std::string> StoredView::unshard(std::span<const HeldParameter* const> parameters,
                                             const Between& between) {
  std::vector<std::string> names;
  std::vector<std::string> fresh;
  try {
    for (const HeldParameter* parameter : parameters) {
      if (between) between();
      if (!assembled_.contains(parameter->name)) {
        assembled_[parameter->name] = checkpoint::read_all(*source_, parameter->name);
        fresh.push_back(parameter->name);
      }
      names.push_back(parameter->name);
    }
  } catch (...) {
    for (const std::string& name : fresh) assembled_.erase(name);
    throw;
  }
  return names;
}

int64_t StoredView::unshard_bytes(std::span<const HeldParameter* const> parameters) const {
  int64_t bytes = 0;
  for (const HeldParameter* parameter : parameters) {
    if (!assembled_.contains(parameter->name)) bytes += parameter->bytes();
  }
  return bytes;
}

std::vector<std::string> StoredView::reshard(std::span<const HeldParameter* const> parameters) {
  std::vector<std::string> names;
  for (const HeldParameter* parameter : parameters) {
    if (assembled_.erase(parameter->name) > 0) names.push_back(parameter->name);
  }
  return names;
}

std::string StoredView::unshard_note() const {
  return "at rest: shards are in the files of the ranks that wrote them; full tensors are "
         "assembled in this "
         "process, counted at rank 0";
}

int64_t StoredView::runnable_bytes() const {
  if (model_ || !config_problem_.empty()) return 0;
  int64_t elements = 0;
  for (const HeldParameter& parameter : parameters_) elements += parameter.numel();
  return elements * static_cast<int64_t>(c10::elementSize(compute_dtype_));
}

parallel::ParallelModel& StoredView::runnable(const Between& between) {
  if (model_) return *model_;
  if (!config_problem_.empty()) {
    throw Error(ErrorKind::kPlan, cat("the model cannot be run: ", config_problem_),
                config_ ? std::string() : "put the model's config.json beside its weights");
  }
  const config::Plan plan = plan_of_one(compute_dtype_);
  Diagnostics found;
  const auto layout = planner::build_layout(plan, *config_, mesh::MeshSizes{}, found);
  if (!layout) throw Error(ErrorKind::kPlan, cat("the model cannot be run: ", first_error(found)));
  if (!single_mesh_) {
    single_mesh_ = std::make_unique<runtime::DeviceMesh>(runtime::World::single(),
                                                         mesh::MeshLayout(mesh::MeshSizes{}));
  }
  auto model = parallel::ParallelModel::build(plan, *config_, *layout, *single_mesh_);
  checkpoint::load(*model, StoppableSource(*source_, between));
  model_ = std::move(model);
  return *model_;
}

void StoredView::set_compute_dtype(at::ScalarType dtype) {
  if (dtype != compute_dtype_) model_.reset();
  compute_dtype_ = dtype;
}

void StoredView::export_hf(const fs::path& folder, std::optional<at::ScalarType> dtype,
                           const Between& between) {
  checkpoint::export_hf(folder, *source_, dtype, checkpoint::kExportFileBytes, between);
}

}  // namespace am::inspect
