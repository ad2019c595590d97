#include "am/checkpoint/module_checkpoint.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/checkpoint.h"
#include "am/checkpoint/collective_step.h"
#include "am/checkpoint/read_tensor.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/automesh_source.h"

namespace am::checkpoint {

namespace {

using torch::optim::OptimizerParamState;

// Key in CheckpointInfo::facts. Its value is an object that maps parameters to their numbers of
// updates.
constexpr const char* kUpdates = "torch.optim.step";

// The state of one parameter in an optimizer of libtorch.
struct State {
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // with PyTorch's names
  std::optional<int64_t> updates;                           // nullopt for SGD
};

// Functions that read and create the states of one type of optimizer.
struct Kind {
  State (*read)(const OptimizerParamState& state);
  std::unique_ptr<OptimizerParamState> (*make)(const State& state);
};

template <typename Adam>
constexpr Kind kAdamLike = {
    [](const OptimizerParamState& state) {
      const auto& adam = static_cast<const Adam&>(state);
      State read{{{"exp_avg", adam.exp_avg()}, {"exp_avg_sq", adam.exp_avg_sq()}}, adam.step()};
      if (adam.max_exp_avg_sq().defined()) {
        read.tensors.emplace_back("max_exp_avg_sq", adam.max_exp_avg_sq());
      }
      return read;
    },
    [](const State& state) -> std::unique_ptr<OptimizerParamState> {
      auto made = std::make_unique<Adam>();
      made->step(state.updates.value_or(0));
      for (const auto& [name, tensor] : state.tensors) {
        if (name == "exp_avg") made->exp_avg(tensor);
        if (name == "exp_avg_sq") made->exp_avg_sq(tensor);
        if (name == "max_exp_avg_sq") made->max_exp_avg_sq(tensor);
      }
      return made;
    }};

constexpr Kind kSgd = {
    [](const OptimizerParamState& state) {
      const at::Tensor& momentum =
          static_cast<const torch::optim::SGDParamState&>(state).momentum_buffer();
      State read;
      if (momentum.defined()) read.tensors.emplace_back("momentum_buffer", momentum);
      return read;
    },
    [](const State& state) -> std::unique_ptr<OptimizerParamState> {
      auto made = std::make_unique<torch::optim::SGDParamState>();
      made->momentum_buffer(state.tensors.front().second);
      return made;
    }};

const Kind& kind_of(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr) {
    return kAdamLike<torch::optim::AdamWParamState>;
  }
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr) {
    return kAdamLike<torch::optim::AdamParamState>;
  }
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) return kSgd;
  throw Error(ErrorKind::kUsage, "checkpoints do not support this type of optimizer",
              "use Adam, AdamW or SGD of torch::optim");
}

// Returns a view of the box group.owned()[i] in `state`, an optimizer state with the shape of this
// rank's shard of the parameter.
at::Tensor box_of(const parallel::ParamGroup& group, size_t i, const at::Tensor& state) {
  const parallel::LocalParameter& owned = group.owned()[i];
  const parallel::Piece& piece = group.pieces()[owned.piece];
  return piece.view_of(state.view({-1}), piece.boxes[owned.number]);
}

Shape shape_of(const at::Tensor& tensor) { return {tensor.sizes().begin(), tensor.sizes().end()}; }

// Returns the module's buffers, which every rank of the mesh holds in full.
std::deque<parallel::LocalParameter> buffers_of(const parallel::ShardedModule& module) {
  const runtime::Group& world = module.mesh().group("world");
  std::deque<parallel::LocalParameter> buffers;
  for (const auto& each : module.module()->named_buffers()) {
    parallel::LocalParameter buffer;
    buffer.name = each.key();
    buffer.shape = shape_of(each.value());
    buffer.box = mesh::Box::whole(buffer.shape);
    buffer.value = each.value();
    buffer.holders = "buffers";
    // Only rank 0's copy is saved, because the values may differ between ranks.
    buffer.replicas = world.index() == 0 ? 1 : 0;
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

// Throws Error(kFormat) unless the checkpoint contains exactly the module's parameters and buffers,
// with the module's shapes.
void require_names(const parallel::ShardedModule& module,
                   const std::deque<parallel::LocalParameter>& buffers,
                   const stored::TensorSource& source) {
  std::set<std::string> unknown;
  for (const stored::StoredTensor& each : source.tensors()) unknown.insert(each.name);
  std::vector<std::string> wrong;
  const auto check = [&](const std::string& name, const Shape& shape) {
    const stored::StoredTensor* found = source.find(name);
    if (found == nullptr) {
      wrong.push_back(cat("the checkpoint lacks ", name));
    } else if (found->shape != shape) {
      wrong.push_back(cat(name, " is ", shape_text(found->shape), " in the checkpoint, and ",
                          shape_text(shape), " in the module"));
    }
    unknown.erase(name);
  };
  for (const auto& parameter : module.layout().parameters) check(parameter.name, parameter.shape);
  for (const auto& buffer : buffers) check(buffer.name, buffer.shape);
  for (const std::string& name : unknown) wrong.push_back(cat("the module lacks ", name));
  if (wrong.empty()) return;
  throw Error(ErrorKind::kFormat, cat(source.path().string(), ": ", join(wrong, "; ")),
              "create the module with the names and shapes of the saved one");
}

}  // namespace

std::vector<ModuleState> module_states(parallel::ShardedModule& module,
                                       const torch::optim::Optimizer& optimizer) {
  const Kind& kind = kind_of(optimizer);
  std::vector<ModuleState> states;
  module.for_each_owned(
      [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
        const auto found = optimizer.state().find(group.leaf(i).unsafeGetTensorImpl());
        if (found == optimizer.state().end()) return;
        const State state = kind.read(*found->second);
        for (const auto& [name, tensor] : state.tensors) {
          states.push_back({owned.name, name, &owned, box_of(group, i, tensor), state.updates});
        }
      });
  return states;
}

void save_module(const std::filesystem::path& folder, parallel::ShardedModule& module,
                 torch::optim::Optimizer& optimizer, int64_t step) {
  if (module.mesh().world().is_fake()) return;
  module.data_parallel().reshard("");  // optimizer states have the shapes of the shards
  SavedState saved;
  saved.info.step = step;
  saved.info.mesh = module.mesh().layout().sizes();
  saved.info.world_size = module.mesh().layout().world_size();
  saved.info.model_type = module.module()->name();
  Json updates = Json::object();
  for (const ModuleState& state : module_states(module, optimizer)) {
    if (state.updates) updates[state.parameter] = *state.updates;
    saved.states.push_back(
        {run_folder::state_name(state.parameter, state.kind), state.of, state.values});
  }
  saved.info.facts[kUpdates] = std::move(updates);
  const std::deque<parallel::LocalParameter> buffers = buffers_of(module);
  for (const parallel::LocalParameter& buffer : buffers) {
    saved.states.push_back({buffer.name, &buffer, buffer.value});
  }
  save_checkpoint(folder, saved, module);
}

int64_t load_module(const std::filesystem::path& folder, parallel::ShardedModule& module,
                    torch::optim::Optimizer& optimizer) {
  const Kind& kind = kind_of(optimizer);
  const at::NoGradGuard no_grad;
  module.data_parallel().reshard("");
  std::unique_ptr<stored::TensorSource> source;
  run_folder::CheckpointInfo info;
  const std::deque<parallel::LocalParameter> buffers = buffers_of(module);
  collective_step(
      module.mesh().group("world"), [] {},
      [&] {
        info = run_folder::read_checkpoint_info(folder);
        source = stored::open_automesh_source(folder, stored::OnDamage::kRefuse);
        require_names(module, buffers, *source);
      });
  std::set<std::string> known;
  for (const stored::StoredTensor& each : source->optimizer_tensors()) known.insert(each.name);
  const Json updates =
      info.facts.is_object() ? info.facts.value(kUpdates, Json::object()) : Json::object();
  module.for_each_owned(
      [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
        read(*source, owned.name, owned.box, owned.value);
        if (owned.number > 0) return;  // the states were read at the shard's first box
        State state;
        for (const char* name : {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"}) {
          const std::string key = run_folder::state_name(owned.name, name);
          if (!known.contains(key)) continue;
          const at::Tensor values = at::zeros_like(group.pieces().view(group.flat(), owned.piece));
          for (size_t j = i; j < group.owned().size(); ++j) {
            const parallel::LocalParameter& box = group.owned()[j];
            if (box.piece == owned.piece) read(*source, key, box.box, box_of(group, j, values));
          }
          state.tensors.emplace_back(name, values);
        }
        if (state.tensors.empty()) return;
        state.updates = updates.value(owned.name, info.step);
        optimizer.state()[group.leaf(i).unsafeGetTensorImpl()] = kind.make(state);
      });
  for (const parallel::LocalParameter& buffer : buffers) {
    read(*source, buffer.name, buffer.box, buffer.value);
  }
  return info.step;
}

}  // namespace am::checkpoint
