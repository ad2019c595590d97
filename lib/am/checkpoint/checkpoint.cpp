#include "am/checkpoint/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "am/base/file.h"
#include "am/base/host.h"
#include "am/base/text.h"
#include "am/checkpoint/collective_step.h"
#include "am/run_folder/shard_table.h"
#include "am/run_folder/step_folders.h"
#include "am/tensor/dtype.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

struct SavedBox {
  formats::SafetensorsItem item;
  at::Tensor value;
};

// This rank's boxes: parameters first, then optimizer state; empty ones and replicas left out. A
// second box of one tensor is an entry of another name.
std::vector<SavedBox> collect_boxes(parallel::ParallelModel& model,
                                    const std::vector<StateTensor>& state,
                                    run_folder::ShardTable& table) {
  std::vector<SavedBox> boxes;
  const auto add = [&](const std::string& key, const parallel::OwnedParameter& parameter,
                       const at::Tensor& value) {
    if (!parameter.first_replica || value.numel() == 0) return;
    std::string entry = key;
    for (int number = 1; table.contains(entry); ++number) entry = cat(key, "#", number);
    table[entry] = {parameter.shape, parameter.box.offset, entry == key ? "" : key};
    boxes.push_back({{entry, tensor::safetensors_name(value.scalar_type()), parameter.box.shape},
                     value.detach().contiguous()});
  };
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    add(owned.name, owned, owned.value);
  });
  for (const auto& each : state) add(each.key, *each.parameter, each.value);
  return boxes;
}

// On any rank: those with more than one slice of a matrix.
bool has_several_boxes(const planner::Layout& layout) {
  return std::any_of(layout.parameters.begin(), layout.parameters.end(),
                     [](const auto& parameter) { return parameter.tp_slices.size() > 1; });
}

void write_rank_file(const fs::path& folder, int64_t rank, const std::string& save_id,
                     parallel::ParallelModel& model, const std::vector<StateTensor>& state) {
  run_folder::ShardTable table;
  const std::vector<SavedBox> boxes = collect_boxes(model, state, table);
  std::vector<formats::SafetensorsItem> items;
  for (const auto& box : boxes) items.push_back(box.item);
  formats::SafetensorsWriter writer(folder / run_folder::rank_file_name(rank), items,
                                    {{"format", "pt"},
                                     {run_folder::kShardsKey, run_folder::to_metadata(table)},
                                     {run_folder::kSaveKey, save_id}});
  for (const auto& box : boxes) {
    const at::Tensor value = box.value.cpu();  // a copy where it is a GPU's
    writer.write({static_cast<const std::byte*>(value.data_ptr()), value.nbytes()});
  }
  writer.close();
}

}  // namespace

void save_checkpoint(const fs::path& folder, run_folder::CheckpointInfo info,
                     const std::string& plan_toml, parallel::ParallelModel& model,
                     const std::vector<StateTensor>& state) {
  const runtime::Group& world = model.mesh().group("world");
  const bool first = world.index() == 0;
  info.several_boxes = has_several_boxes(model.layout());
  info.save_id = world.broadcast_text(first ? unique_id() : "");
  const fs::path partial = folder.string() + run_folder::kPartialSuffix;
  const auto clean = [&] {
    std::error_code ignored;
    if (first) fs::remove_all(partial, ignored);
  };
  collective_step(world, clean, [&] {
    if (!first) return;
    fs::remove_all(partial);
    fs::create_directories(partial);
    write_file_atomically(partial / "plan.toml", plan_toml);
    write_file_atomically(partial / "config.json", model.config().text);
  });
  collective_step(world, clean,
                  [&] { write_rank_file(partial, world.index(), info.save_id, model, state); });
  collective_step(world, clean, [&] {
    if (!first) return;
    write_file_atomically(partial / run_folder::kInfoFile, run_folder::to_json_text(info));
    sync_folder(partial);
    run_folder::publish(partial, folder);
  });
}

}  // namespace am::checkpoint
