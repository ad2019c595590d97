#include "am/checkpoint/own_part.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "am/base/text.h"
#include "am/model/inventory.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/automesh_source.h"

namespace am::checkpoint {

std::unique_ptr<stored::TensorSource> open_own_part(const std::filesystem::path& folder,
                                                    parallel::ParallelModel& model,
                                                    const std::vector<StateTensor>& states) {
  std::map<std::string, std::vector<mesh::Box>> own;
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
    own[owned.name].push_back(owned.box);
  });
  for (const StateTensor& state : states) own[state.key].push_back(state.parameter->box);
  const model::Inventory& inventory = model.layout().inventory;
  // If the head is tied to the embedding, a rank reads the full embedding: a checkpoint may store
  // the head too, and every rank then compares the two tensors.
  const size_t tied = inventory.weight_of(model::Role::kEmbedding);
  const auto wanted = [&](const std::string& name) -> std::optional<std::vector<mesh::Box>> {
    const model::ParameterSpec* parameter = inventory.find(name);
    if (inventory.tied_lm_head && parameter == &inventory.parameters[tied]) return std::nullopt;
    const bool others = parameter != nullptr || starts_with(name, run_folder::kOptimizerPrefix);
    const auto found = own.find(name);
    if (found != own.end()) return found->second;
    // A tensor that is neither a parameter of the model nor an optimizer state is read completely,
    // because it may be a larger tensor that contains parameters (stored::HubNames).
    return others ? std::optional(std::vector<mesh::Box>()) : std::nullopt;
  };
  return stored::open_automesh_part(folder, wanted);
}

}  // namespace am::checkpoint
