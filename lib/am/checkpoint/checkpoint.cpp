#include "am/checkpoint/checkpoint.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <system_error>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/collective_step.h"
#include "am/checkpoint/shard_table.h"
#include "am/tensor/dtype.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kInfoFile = "checkpoint.json";
constexpr const char* kFormatName = "automesh-checkpoint";

std::string info_json(const CheckpointInfo& info) {
  const auto& mesh = info.mesh;
  Json json = {{"format", kFormatName},
               {"version", kCheckpointVersion},
               {"step", info.step},
               {"world_size", info.world_size},
               {"model_type", info.model_type},
               {"mesh",
                {{"pp", mesh.pp},
                 {"dp_replicate", mesh.dp_replicate},
                 {"dp_shard", mesh.dp_shard},
                 {"cp", mesh.cp},
                 {"tp", mesh.tp},
                 {"ep", mesh.ep}}}};
  if (info.skipped_steps > 0) json["skipped_steps"] = info.skipped_steps;
  if (info.loss_scale) {
    json["loss_scale"] = {{"scale", info.loss_scale->scale},
                          {"growth_tracker", info.loss_scale->growth_tracker}};
  }
  return json.dump(2) + "\n";
}

// Both keys are there in jobs alone that skip steps.
void read_skipped_steps(const Json& json, CheckpointInfo& info) {
  info.skipped_steps = json.value("skipped_steps", int64_t{0});
  bool legal = info.skipped_steps >= 0 && info.skipped_steps <= info.step;
  if (json.contains("loss_scale")) {
    const auto& scale = json.at("loss_scale");
    info.loss_scale = {scale.at("scale").get<double>(), scale.at("growth_tracker").get<int64_t>()};
    legal = legal && std::isfinite(info.loss_scale->scale) && info.loss_scale->scale > 0.0 &&
            info.loss_scale->growth_tracker >= 0;
  }
  if (legal) return;
  throw Error(ErrorKind::kFormat, cat(kInfoFile, ": its skipped_steps or loss_scale cannot be"));
}

struct SavedBox {
  formats::SafetensorsItem item;
  at::Tensor value;
};

// This rank's boxes: parameters first, then optimizer state; empty ones and replicas left out.
std::vector<SavedBox> collect_boxes(parallel::ParallelModel& model,
                                    const std::vector<StateTensor>& state, ShardTable& table) {
  std::vector<SavedBox> boxes;
  const auto add = [&](const std::string& key, const parallel::OwnedParameter& parameter,
                       const at::Tensor& value) {
    if (!parameter.first_replica || value.numel() == 0) return;
    table[key] = {parameter.shape, parameter.box.offset};
    boxes.push_back({{key, tensor::safetensors_name(value.scalar_type()), parameter.box.shape},
                     value.detach().contiguous()});
  };
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    add(owned.name, owned, owned.value);
  });
  for (const auto& each : state) add(each.key, *each.parameter, each.value);
  return boxes;
}

void write_rank_file(const fs::path& folder, int64_t rank, parallel::ParallelModel& model,
                     const std::vector<StateTensor>& state) {
  ShardTable table;
  const std::vector<SavedBox> boxes = collect_boxes(model, state, table);
  std::vector<formats::SafetensorsItem> items;
  for (const auto& box : boxes) items.push_back(box.item);
  formats::SafetensorsWriter writer(folder / rank_file_name(rank), items,
                                    {{"format", "pt"}, {"shards", to_metadata(table)}});
  for (const auto& box : boxes) {
    const at::Tensor value = box.value.cpu();  // a copy where it is a GPU's
    writer.write({static_cast<const std::byte*>(value.data_ptr()), value.nbytes()});
  }
  writer.close();
}

}  // namespace

void save_checkpoint(const fs::path& folder, const CheckpointInfo& info,
                     const std::string& plan_toml, parallel::ParallelModel& model,
                     const std::vector<StateTensor>& state) {
  const runtime::Group& world = model.mesh().group("world");
  const bool first = world.index() == 0;
  const fs::path partial = folder.string() + ".tmp";
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
  collective_step(world, clean, [&] { write_rank_file(partial, world.index(), model, state); });
  collective_step(world, clean, [&] {
    if (!first) return;
    write_file_atomically(partial / kInfoFile, info_json(info));
    sync_folder(partial);
    // A checkpoint of this step from an earlier run of the same folder gives way to the new one.
    const fs::path replaced = folder.string() + ".old";
    fs::remove_all(replaced);
    if (fs::exists(folder)) fs::rename(folder, replaced);
    fs::rename(partial, folder);
    sync_folder(folder.parent_path());
    fs::remove_all(replaced);
  });
}

bool is_checkpoint(const fs::path& folder) { return fs::exists(folder / kInfoFile); }

CheckpointInfo read_checkpoint_info(const fs::path& folder) {
  const fs::path file = folder / kInfoFile;
  Diagnostics found;
  const auto json = parse_json(read_file(file), file.string(), found);
  try {
    if (!json || json->at("format") != kFormatName) {
      throw Error(ErrorKind::kFormat, cat(file.string(), ": not an am-run checkpoint"));
    }
    if (json->at("version") != kCheckpointVersion) {
      throw Error(ErrorKind::kFormat, cat(file.string(), ": version ", json->at("version").dump(),
                                          " is not known; this is version ", kCheckpointVersion));
    }
    CheckpointInfo info;
    info.step = json->at("step").get<int64_t>();
    info.world_size = json->at("world_size").get<int64_t>();
    info.model_type = json->at("model_type").get<std::string>();
    read_skipped_steps(*json, info);
    const auto& mesh = json->at("mesh");
    info.mesh = {mesh.at("pp").get<int64_t>(),       mesh.at("dp_replicate").get<int64_t>(),
                 mesh.at("dp_shard").get<int64_t>(), mesh.at("cp").get<int64_t>(),
                 mesh.at("tp").get<int64_t>(),       mesh.at("ep").get<int64_t>()};
    if (info.world_size < 1 || info.mesh.world_size() != info.world_size) {
      throw Error(ErrorKind::kFormat, cat(file.string(), ": its mesh does not make its world"));
    }
    return info;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kFormat, cat(file.string(), ": ", error.what()));
  }
}

}  // namespace am::checkpoint
