#include "am/live/module_program.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <map>
#include <string_view>
#include <utility>

#include "am/base/text.h"
#include "am/checkpoint/module_checkpoint.h"
#include "am/run_folder/shard_index.h"
#include "am/values/parameter_view.h"

namespace am::live {

std::vector<values::ProgramTensor> tensors_of(parallel::ShardedModule& module,
                                              const torch::optim::Optimizer* optimizer) {
  const at::NoGradGuard no_grad;
  module.data_parallel().reshard("");
  std::map<std::string_view, const layout::ParameterLayout*> layouts;
  for (const auto& each : module.layout().parameters) layouts.emplace(each.name, &each);
  std::vector<values::ProgramTensor> tensors;
  const auto add = [&](std::string name, const parallel::LocalParameter& of, at::Tensor part) {
    tensors.push_back({std::move(name), std::move(part), of.shape, of.box.offset,
                       layouts.at(of.name)->placements(module.mesh().layout())});
  };
  module.for_each_owned(
      [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
        add(owned.name, owned, owned.value);
        if (owned.trainable && group.flat_grad().defined()) {
          add(cat(values::kGradientPrefix, owned.name), owned, group.view_in(group.flat_grad(), i));
        }
      });
  for (const auto& buffer : module.module()->named_buffers()) {
    const Shape shape(buffer.value().sizes().begin(), buffer.value().sizes().end());
    tensors.push_back({buffer.key(), buffer.value(), shape, Shape(shape.size(), 0), {}});
  }
  if (optimizer == nullptr) return tensors;
  for (auto& state : checkpoint::module_states(module, *optimizer)) {
    add(run_folder::state_name(state.parameter, state.kind), *state.of, std::move(state.values));
  }
  return tensors;
}

}  // namespace am::live
