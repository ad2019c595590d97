#include "am/checkpoint/save_steps.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/host.h"
#include "am/base/text.h"
#include "am/checkpoint/collective_step.h"
#include "am/run_folder/writers.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

std::vector<SavedBox> collect_boxes(parallel::ShardedParameters& model,
                                    const std::vector<StateTensor>& states) {
  std::vector<SavedBox> boxes;
  std::vector<run_folder::HeldBox> held;
  std::vector<int64_t> replica;
  const auto add = [&](const std::string& name, const parallel::LocalParameter& parameter,
                       const at::Tensor& value, std::function<at::Tensor()> make = {}) {
    if (parameter.replicas == 0 || value.numel() == 0) return;
    boxes.push_back({name, parameter.shape, parameter.box, value, std::move(make)});
    held.push_back({static_cast<int64_t>(value.nbytes()), parameter.replicas, parameter.holders});
    replica.push_back(parameter.replica);
  };
  model.for_each_owned(
      [&](parallel::ParamGroup& group, size_t, const parallel::LocalParameter& owned) {
        if (!group.quantized()) return add(owned.name, owned, owned.value);
        // Quantized parameters are dequantized one box at a time, when RankFile requests the
        // values. They are frozen, so RankFile may do so while training continues. Until then, an
        // expanded meta tensor stands for each box. The tensor has the box's shape and dtype but
        // only one element, so a dry run does not count the box's memory.
        const auto meta = at::TensorOptions(group.storage_dtype()).device(at::kMeta);
        add(owned.name, owned, at::empty({1}, meta).expand(owned.box.shape),
            [&group, &owned] { return group.value_of(owned); });
      });
  for (const StateTensor& each : states) add(each.key, *each.parameter, each.value);
  const std::vector<int64_t> writers = run_folder::choose_writers(held);
  std::vector<SavedBox> own;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (writers[i] == replica[i]) own.push_back(std::move(boxes[i]));
  }
  return own;
}

namespace {

// Returns the alias of a tied head: the name of its weight, mapped to the embedding's name.
// `.metadata` must list both names, because PyTorch's modules have both. Empty without a tied head.
std::map<std::string, std::string> aliases_of(const model::Inventory& inventory) {
  if (!inventory.tied_lm_head) return {};
  return {{cat(inventory.names.head, ".weight"),
           inventory.parameters[inventory.weight_of(model::Role::kHead)].name}};
}

}  // namespace

SaveSteps::SaveSteps(fs::path folder, const SavedState& state, parallel::ShardedParameters& model)
    : world_(model.mesh().group("world")),
      folder_(std::move(folder)),
      require_place_(state.require_place) {
  publication_.folder = folder_;
  publication_.info = state.info;
  publication_.plan_toml = state.plan_toml;
  publication_.metadata_parts = state.metadata_parts;
  publication_.config = model.config_text();
  publication_.info.save_id = world_.broadcast_text(is_first() ? unique_id() : "");
  publication_.aliases = aliases_of(model.layout().inventory);
  collective([&] {
    if (is_first() && state.optimizer) {
      publication_.optimizer = optimizer_values(*state.optimizer, model.layout());
    }
    file_.emplace(publication_.info.save_id, world_.index(), collect_boxes(model, state.states),
                  publication_.optimizer.slices);
    publication_.value_slices = file_->value_slices();
    if (!is_first()) return;
    require_place_();
    begin_folder(folder_);
  });
}

void SaveSteps::report() const { write_report(folder_, world_.index(), file_->index()); }

bool SaveSteps::all_have_reported() {
  unreported_ = first_unreported(folder_, unreported_, world_.size());
  if (unreported_ == world_.size()) return true;
  require_place_();
  if (fs::exists(partial_folder(folder_))) return false;
  throw Error(ErrorKind::kIo, cat(partial_folder(folder_).string(),
                                  ": the folder was removed while the checkpoint was written"));
}

void SaveSteps::publish() const {
  require_place_();
  checkpoint::publish(publication_);
}

void SaveSteps::clean() const {
  if (!is_first()) return;
  try {
    require_place_();
    fs::remove_all(partial_folder(folder_));
  } catch (const std::exception&) {
    // The error is ignored, because the caller reports why the save failed. Removing the folder
    // fails if the folder belongs to another job by now, or if the disk fails.
  }
}

void SaveSteps::collective(const std::function<void()>& body) const {
  const auto explained = [&] {
    try {
      body();
    } catch (const std::exception&) {
      require_place_();
      throw;
    }
  };
  collective_step(
      world_, [this] { clean(); }, explained);
}

}  // namespace am::checkpoint
