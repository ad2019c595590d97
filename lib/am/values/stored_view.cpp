#include "am/values/stored_view.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/checkpoint/checkpoint.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/inspect/facts.h"
#include "am/layout/layout.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"
#include "am/values/on_threads.h"

namespace am::values {

namespace fs = std::filesystem;

namespace {

// Wraps a source of tensors and calls `between` before each read. If the user interrupts am-repl,
// `between` throws and so stops the loading of a model.
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

// Largest number of elements that visit_parts() reads at a time, unless one row has more. As
// float32, they are still in the cache of a core when `visit` reads them.
constexpr int64_t kReadBlock = int64_t{256} << 10;

// Returns a plan that runs a model on one rank in `dtype`.
config::Plan plan_of_one(formats::Dtype dtype) {
  config::Plan plan;
  plan.strategy = config::DDPConfig{};
  plan.model.dtype = formats::torch_name(dtype);
  plan.mesh.world_size = 1;
  return plan;
}

}  // namespace

// Returns the full tensor if it is in memory, as an unsharded parameter or a gradient; otherwise
// null.
const at::Tensor* StoredView::assembled(const HeldParameter& parameter) {
  for (const auto* tensors : {&assembled_, &gradients_}) {
    const auto found = tensors->find(parameter.name);
    if (found != tensors->end()) return &found->second;
  }
  return nullptr;
}

at::Tensor StoredView::read(const HeldParameter& parameter, const mesh::Box& box) {
  if (const at::Tensor* whole = assembled(parameter)) {
    return tensor::view_box(*whole, Shape(parameter.shape.size(), 0), box);
  }
  at::Tensor out = at::empty(box.shape, at::TensorOptions(tensor::scalar_type(parameter.dtype)));
  if (box.numel() > 0) checkpoint::read(*source(), parameter.name, box, out);
  return out;
}

void StoredView::visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                             const PartVisit& visit) {
  bool goes_on = true;
  stored::for_each_row_block(box, kReadBlock, [&](const mesh::Box& block) {
    if (goes_on) goes_on = visit_block(parameter, block, visit);
  });
}

void StoredView::visit_parts_at_once(const HeldParameter& parameter, const mesh::Box& box,
                                     const NumberedVisit& visit) {
  std::vector<mesh::Box> blocks;
  stored::for_each_row_block(box, kReadBlock,
                             [&](const mesh::Box& block) { blocks.push_back(block); });
  on_threads(blocks.size(), [&](size_t /*thread*/, size_t number) {
    return visit_block(parameter, blocks[number],
                       [&](const Part& part) { return visit(number, part); });
  });
}

bool StoredView::visit_block(const HeldParameter& parameter, const mesh::Box& block,
                             const PartVisit& visit) {
  bool goes_on = true;
  const auto view = [&](std::span<const std::byte> bytes) {
    const at::TensorOptions options(tensor::scalar_type(parameter.dtype));
    goes_on =
        visit({at::from_blob(const_cast<std::byte*>(bytes.data()), block.shape, options), block});
  };
  if (assembled(parameter) != nullptr || !source()->view(parameter.name, block, view)) {
    goes_on = visit({read(parameter, block), block});
  }
  forget_read_pages(static_cast<size_t>(block.numel() * formats::dtype_size(parameter.dtype)));
  return goes_on;
}

std::vector<HeldBytes> StoredView::held_bytes() {
  std::vector<HeldBytes> ranks = catalog_.held_bytes();
  if (model_) {
    for (const parallel::ParamGroup* group : model_->groups()) {
      ranks.front().model += static_cast<int64_t>(group->flat().nbytes());
      if (group->flat_grad().defined()) {
        ranks.front().gradients += static_cast<int64_t>(group->flat_grad().nbytes());
      }
    }
  }
  for (const auto& [name, value] : assembled_) {
    ranks.front().unsharded += static_cast<int64_t>(value.nbytes());
  }
  return ranks;
}

std::vector<HeldShard> StoredView::usable_boxes(const HeldParameter& parameter) {
  if (!assembled_.contains(parameter.name)) {
    return {parameter.shards.begin(), parameter.shards.end()};
  }
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
        assembled_[parameter->name] = checkpoint::read_all(*source(), parameter->name);
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
  return "shards are counted for the rank that wrote their file; full tensors are assembled in "
         "this process and counted for rank 0";
}

// Returns the bytes of all parameters in the dtype in which the model is run.
int64_t StoredView::model_bytes() const {
  int64_t elements = 0;
  for (const HeldParameter& parameter : parameters()) elements += parameter.numel();
  return elements * formats::dtype_size(catalog_.compute_dtype());
}

int64_t StoredView::runnable_bytes() const {
  return model_ || !catalog_.config_problem().empty() ? 0 : model_bytes();
}

parallel::ParallelModel& StoredView::runnable(const Between& between) {
  if (model_) return *model_;
  if (!catalog_.config_problem().empty()) {
    throw Error(ErrorKind::kPlan, cat("the model cannot be run: ", catalog_.config_problem()),
                catalog_.config()
                    ? std::string()
                    : "the folder of the weights needs the config.json of a supported model");
  }
  config::Plan plan = plan_of_one(catalog_.compute_dtype());
  plan.lora = catalog_.lora();
  plan.lora.dropout = 0.0;
  Diagnostics found;
  const auto layout = layout::build_layout(plan, *catalog_.config(), mesh::MeshSizes{}, found);
  if (!layout)
    throw Error(ErrorKind::kPlan, cat("the model cannot be run: ", inspect::first_error(found)));
  if (!single_mesh_) {
    single_mesh_ = std::make_unique<runtime::DeviceMesh>(runtime::World::single(),
                                                         mesh::MeshLayout(mesh::MeshSizes{}));
  }
  auto model = parallel::ParallelModel::build(plan, *catalog_.config(), *layout, *single_mesh_);
  checkpoint::load(*model, StoppableSource(*source(), between));
  model_ = std::move(model);
  return *model_;
}

std::span<const HeldParameter> StoredView::states() const {
  return gradients_.empty() ? catalog_.states() : std::span<const HeldParameter>(states_);
}

void StoredView::after_backward(const std::string& of) {
  gradients_of_ = of;
  gradients_.clear();
  states_.clear();
  for (const HeldParameter& parameter : parameters()) {
    const auto& all = model_->layout().parameters;
    const auto layout = std::find_if(all.begin(), all.end(), [&](const auto& each) {
      return each.name == parameter.name && each.trainable;
    });
    if (layout == all.end()) continue;
    HeldParameter gradient = parameter;
    gradient.name = cat(kGradientPrefix, parameter.name);
    gradient.dtype = catalog_.compute_dtype();
    gradients_[gradient.name] = model_->full_gradient(parameter.name);
    states_.push_back(std::move(gradient));
  }
  const auto stored = catalog_.states();
  states_.insert(states_.end(), stored.begin(), stored.end());
}

void StoredView::drop_model() {
  gradients_of_.clear();
  gradients_.clear();
  states_.clear();
  model_.reset();
}

void StoredView::set_compute_dtype(at::ScalarType dtype) {
  const formats::Dtype stored = tensor::stored_dtype(dtype);
  if (stored != catalog_.compute_dtype()) drop_model();
  catalog_.choose_compute_dtype(stored);
}

void StoredView::export_hf(const fs::path& folder, const HubExport& options,
                           const Between& between) {
  HubExport chosen = options;
  chosen.tokenizer = default_tokenizer().path();
  const bool adapted = catalog_.lora().rank > 0 && !options.weights_only;
  if (adapted) {
    // An adapter's scale is not in the tensors. A model reads the scale from the LoRA settings of
    // the checkpoint's plan, so the export reads the model instead of the tensors.
    if (!chosen.dtype) chosen.dtype = tensor::scalar_type(source()->tensors().front().dtype);
    return checkpoint::export_hf(folder, runnable(between), chosen, between);
  }
  checkpoint::export_hf(folder, *source(), chosen, between);
}

}  // namespace am::values
