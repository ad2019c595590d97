#include "am/values/program_view.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/export_folder.h"
#include "am/inspect/facts.h"
#include "am/run_folder/shard_index.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::values {

namespace {

[[noreturn]] void refuse_to_run() {
  throw Error(ErrorKind::kUsage,
              "am-repl cannot run this job's model: its code is in the program that trains it",
              "save a checkpoint from that program, and open the checkpoint with am-repl");
}

}  // namespace

ProgramView::ProgramView(const ProgramTensors& tensors, ProgramFacts facts)
    : tensors_(tensors), facts_(std::move(facts)), mesh_(facts_.mesh) {}

std::string ProgramView::title() const {
  return inspect::make_title(facts_.model, cat("step ", facts_.steps()), mesh_);
}

Json ProgramView::info() {
  Json json = {{"target", facts_.run}, {"kind", "job"}, {"step", facts_.steps()}};
  json["model_type"] = facts_.model;
  inspect::add_totals(parameters(), json);
  json["weights"] = "of the job";
  inspect::add_mesh(mesh_, json);
  json["tokenizer"] = name_or_null(default_tokenizer());
  return json;
}

at::Tensor ProgramView::read(const HeldParameter& parameter, const mesh::Box& box) {
  const at::NoGradGuard no_grad;
  const auto found = whole_.find(parameter.name);
  if (found == whole_.end()) return reduce(parameter, box);
  return tensor::view_box(found->second, Shape(parameter.shape.size(), 0), box);
}

void ProgramView::visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                              const PartVisit& visit) {
  for (const ProgramTensors::Own& own : tensors_.own(parameter.name)) {
    const auto common = mesh::intersect(own.box, box);
    if (!common) continue;
    const at::Tensor values = tensor::view_box(own.values, own.box.offset, *common);
    if (!visit({values, *common, own.first_replica})) return;
  }
}

std::vector<HeldBytes> ProgramView::held_bytes() {
  HeldBytes own;
  const auto bytes_of = [&](const HeldParameter& held) {
    int64_t bytes = 0;
    for (const ProgramTensors::Own& part : tensors_.own(held.name)) {
      bytes += static_cast<int64_t>(part.values.nbytes());
    }
    return bytes;
  };
  for (const HeldParameter& each : parameters()) own.sharded += bytes_of(each);
  for (const HeldParameter& each : states()) {
    (starts_with(each.name, kGradientPrefix) ? own.gradients : own.optimizer) += bytes_of(each);
  }
  for (const auto& [name, value] : whole_) own.unsharded += static_cast<int64_t>(value.nbytes());
  return gather_bytes(own);
}

std::vector<HeldShard> ProgramView::usable_boxes(const HeldParameter& parameter) {
  if (!whole_.contains(parameter.name)) return {parameter.shards.begin(), parameter.shards.end()};
  std::vector<HeldShard> boxes;
  for (int64_t rank = 0; rank < mesh_.world_size(); ++rank) {
    boxes.push_back({rank, mesh::Box::whole(parameter.shape)});
  }
  return boxes;
}

std::vector<std::string> ProgramView::unshard(std::span<const HeldParameter* const> parameters,
                                              const Between& between) {
  std::vector<std::string> names, gathered;
  try {
    for (const HeldParameter* each : parameters) {
      if (between) between();
      names.push_back(each->name);
      if (whole_.contains(each->name)) continue;
      whole_[each->name] = read(*each, mesh::Box::whole(each->shape));
      gathered.push_back(each->name);
    }
  } catch (...) {
    for (const std::string& name : gathered) whole_.erase(name);
    throw;
  }
  return names;
}

int64_t ProgramView::unshard_bytes(std::span<const HeldParameter* const> parameters) const {
  int64_t bytes = 0;
  for (const HeldParameter* each : parameters) {
    if (!whole_.contains(each->name)) bytes += each->bytes();
  }
  return bytes * tensors_.world().environment().local_world_size;
}

std::vector<std::string> ProgramView::reshard(std::span<const HeldParameter* const> parameters) {
  std::vector<std::string> names;
  for (const HeldParameter* each : parameters) {
    if (whole_.erase(each->name) > 0) names.push_back(each->name);
  }
  return names;
}

std::string ProgramView::unshard_note() const {
  return "each rank has gathered full copies of these parameters in host memory; the program keeps "
         "its own shards";
}

parallel::ParallelModel& ProgramView::runnable(const Between& /*between*/) { refuse_to_run(); }

std::string ProgramView::gradients_of() const {
  for (const HeldParameter& each : states()) {
    if (starts_with(each.name, kGradientPrefix)) return cat("of step ", facts_.steps());
  }
  return {};
}

void ProgramView::set_compute_dtype(at::ScalarType /*dtype*/) { refuse_to_run(); }

DefaultTokenizer ProgramView::default_tokenizer() const {
  return {{}, "a job of another framework's program records no tokenizer"};
}

void ProgramView::export_hf(const std::filesystem::path& folder, const HubExport& options,
                            const Between& between) {
  const std::vector<HeldParameter>& all = parameters();
  if (all.empty()) throw Error(ErrorKind::kUsage, "the program has described no parameters");
  // All ranks use the config of rank 0, because the parts of the model on other ranks may have
  // other configs.
  const std::string config = group().broadcast_text(facts_.config);
  if (!options.weights_only && config.empty()) {
    throw Error(ErrorKind::kUsage, "the program's model has no config of transformers",
                "--format safetensors writes the weights alone");
  }
  checkpoint::ExportTensors tensors;
  for (const HeldParameter& each : all) {
    const at::ScalarType own = tensor::scalar_type(each.dtype);
    const at::ScalarType dtype = at::isFloatingType(own) ? options.dtype.value_or(own) : own;
    tensors.items.push_back({each.name, each.shape, dtype});
  }
  if (!options.weights_only) {
    const auto& items = tensors.items;
    const auto floating = std::find_if(items.begin(), items.end(), [](const auto& item) {
      return at::isFloatingType(item.dtype);
    });
    const at::ScalarType dtype = floating == items.end() ? at::kFloat : floating->dtype;
    tensors.config = checkpoint::config_with_dtype(config, "the program's config", dtype);
    tensors.config_folder = facts_.model_folder;
  }
  tensors.fetch = [&](const std::string& name) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const HeldParameter& each) { return each.name == name; });
    return read(*found, mesh::Box::whole(found->shape));
  };
  checkpoint::export_hf(folder, tensors, group(), options, between);
}

}  // namespace am::values
