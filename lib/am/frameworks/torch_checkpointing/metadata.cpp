#include "am/frameworks/torch_checkpointing/metadata.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/formats/pickle.h"
#include "am/mesh/indices.h"
#include "am/stored/dtensor.h"
#include "am/stored/dtensor_spec.h"
#include "am/stored/weight_index.h"

namespace am::frameworks {

using formats::PickleKind;
using formats::PickleValue;

namespace {

constexpr int64_t kMostWorld = 1 << 20;
constexpr size_t kMostFiles = 4'000'000;
constexpr std::string_view kTorch = "torch.";

// Map from a rank to its position in a list of ranks.
using RankIndex = std::unordered_map<int64_t, int64_t>;

}  // namespace

struct TorchCheckpointingMetadata::Group {
  std::shared_ptr<const RankIndex> ranks;  // the ranks of the group
  std::shared_ptr<const RankIndex> mesh;   // ranks of a DTensor's mesh; null for other tensors
  stored::DTensorSpec spec;                // sharding of a DTensor; unused for other tensors
  // Position of the group's values in the global tensor. For a DTensor, only shape and dtype are
  // set.
  stored::PartPlace part;
};

// Reads the pickle. A list or dict to which the pickle refers several times is converted only once,
// because otherwise a small pickle could require much time and memory.
class MetadataReader {
 public:
  using Group = TorchCheckpointingMetadata::Group;
  using Groups = std::vector<std::shared_ptr<const Group>>;

  explicit MetadataReader(const std::string& where) : where_(where) {}

  TorchCheckpointingMetadata read(const PickleValue& root) {
    if (!root.is(PickleKind::kDict)) fail("the root of the pickle is not a dict");
    const PickleValue* version = root.find("version");
    const std::string of(version == nullptr ? "1.0" : version->text().value_or("?"));
    if (of != "1.0" && of != "2.0")
      fail(cat("its version is ", of, "; the versions 1.0 and 2.0 are supported"));
    const auto ranks = field(root, "world_size").integer();
    if (!ranks || *ranks < 1 || *ranks > kMostWorld)
      fail("world_size is not a valid number of ranks");
    found_.ranks_ = *ranks;
    const PickleValue& metadata = dict(field(root, "metadata"), "metadata");
    of == "1.0" ? read_flat(metadata, field(root, "rank_to_layout_info_mappings"))
                : read_items(metadata);
    return std::move(found_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kFormat, cat(where_, ": ", what),
                "load it with torch_checkpointing, and save it with torch.distributed.checkpoint");
  }

  const PickleValue& field(const PickleValue& of, std::string_view key) const {
    const PickleValue* value = of.find(key);
    if (value == nullptr) fail(cat("the metadata lacks ", key));
    return *value;
  }

  const PickleValue& dict(const PickleValue& value, std::string_view key) const {
    if (!value.is(PickleKind::kDict)) fail(cat(key, " is not a dict"));
    return value;
  }

  template <typename Look>
  void each(const PickleValue& of, std::string_view name, const Look& look) const {
    const auto items = dict(of, name).items();
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto key = items[i].text();
      if (!key) fail(cat("a key of ", name, " is not a string"));
      look(std::string(*key), items[i + 1]);
    }
  }

  void read_items(const PickleValue& metadata) {
    each(metadata, "metadata", [&](const std::string& item, const PickleValue& of) {
      each(field(of, "nested_path_to_metadata"), "nested_path_to_metadata",
           [&](const std::string& path, const PickleValue& groups) {
             stored::KeyPath keys = key_path(path);
             keys.insert(keys.begin(), item);
             add(std::move(keys), groups);
           });
      std::vector<bool> seen(static_cast<size_t>(found_.ranks_));
      each_rank(field(of, "rank_to_layout_info"), [&](int64_t rank, const PickleValue& layout) {
        if (seen[static_cast<size_t>(rank)]) fail(cat(item, " lists two files for rank ", rank));
        seen[static_cast<size_t>(rank)] = true;
        add_file(item, rank, layout);
      });
      if (std::find(seen.begin(), seen.end(), false) != seen.end()) {
        fail(cat(item, " does not name the files of all ", found_.ranks_, " ranks"));
      }
      found_.items_.insert(item);
    });
  }

  // Reads version 1.0. In this version, the path of a tensor begins with the item, and a single
  // dict lists the files of all ranks.
  void read_flat(const PickleValue& metadata, const PickleValue& layouts) {
    each(metadata, "metadata", [&](const std::string& path, const PickleValue& groups) {
      stored::KeyPath keys = key_path(path);
      if (keys.empty()) fail("a path is empty");
      found_.items_.insert(keys.front());
      add(std::move(keys), groups);
    });
    each_rank(layouts, [&](int64_t rank, const PickleValue& items) {
      dict(items, "rank_to_layout_info_mappings");
      for (const std::string& item : found_.items_) {
        const PickleValue* layout = items.find(item);
        add_file(item, rank, layout == nullptr ? PickleValue() : *layout);
      }
    });
  }

  template <typename Look>
  void each_rank(const PickleValue& of, const Look& look) const {
    const auto items = dict(of, "rank_to_layout_info").items();
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto text = items[i].text();
      const auto rank = text ? parse_integer(*text) : items[i].integer();
      if (!rank || *rank < 0 || *rank >= found_.ranks_)
        fail("the metadata lists files of a rank that is not below world_size");
      look(*rank, items[i + 1]);
    }
  }

  // Adds the file of an item and rank. `layout` describes the file; if `layout` is None, the file
  // has the name that usual_file() returns.
  void add_file(const std::string& item, int64_t rank, const PickleValue& layout) {
    std::string path = usual_file(item, rank).string();
    if (!layout.is(PickleKind::kNone)) {
      const PickleValue& format = field(field(layout, "serialization_format"), "type");
      const std::string name(format.text().value_or("?"));
      if (name == "JsonSerialization" || name == "RawSerialization")
        return;  // files in JSON or raw format cannot contain tensors
      if (name != "TorchSerialization") fail(cat(item, " is stored by ", name, ", not torch.save"));
      path = field(layout, "file_path").text().value_or("");
    }
    const auto file = stored::path_inside(path);
    if (!file) fail(cat(item, "'s file \"", path, "\" is not inside the checkpoint's folder"));
    if (!names_.insert(file->string()).second)
      fail(cat("two items are stored in the same file, ", path));
    if (found_.files_.size() == kMostFiles)
      fail(cat("the metadata names more than ", kMostFiles, " files"));
    found_.files_.push_back({item, rank, file->string()});
  }

  stored::KeyPath key_path(const std::string& text) const {
    Diagnostics problems;
    const auto json = parse_json(text, where_, problems);
    if (!json || !json->is_array()) fail(cat("a path is not a list of keys: ", text));
    stored::KeyPath keys;
    for (const Json& key : *json) {
      if (!key.is_string() && !key.is_number_integer())
        fail(cat("a path has a key that is neither a string nor an integer: ", text));
      keys.push_back(key.is_string() ? key.get<std::string>() : key.dump());
    }
    return keys;
  }

  void add(stored::KeyPath keys, const PickleValue& groups) {
    // A path of one key means that the item itself is a tensor. A tensor that is the root object of
    // its file has the path {"tensor"} (stored::TorchEntry).
    if (keys.size() == 1) keys.emplace_back("tensor");
    const auto items = groups.items();
    auto& known = groups_[items.data()];
    if (!known) {
      auto list = std::make_shared<Groups>();
      for (const PickleValue& group : items) list->push_back(read_group(group));
      known = std::move(list);
    }
    found_.groups_[std::move(keys)] = known;
  }

  std::shared_ptr<const Group> read_group(const PickleValue& value) {
    auto& known = single_[dict(value, "sharding").items().data()];
    if (known) return known;
    auto group = std::make_shared<Group>();
    group->ranks = rank_index(field(value, "ranks"));
    const PickleValue& sharding = field(value, "sharding_metadata");
    const std::string type(field(sharding, "type").text().value_or("?"));
    const PickleValue& data = field(sharding, "data");
    group->part.shape = integers(data, "global_shape");
    const std::string_view dtype = field(data, "dtype").text().value_or("");
    if (!starts_with(dtype, kTorch)) fail("a tensor's dtype is not a dtype of torch");
    group->part.dtype = dtype.substr(kTorch.size());
    if (type == "DTensorShardingMetadata") {
      read_dtensor(data, *group);
    } else if (type == "default_tensor_v1") {
      read_boxes(data, *group);
    } else {
      fail(cat("unknown kind of sharding: ", type));
    }
    return known = std::move(group);
  }

  void read_dtensor(const PickleValue& data, Group& group) {
    const PickleValue& mesh = field(data, "mesh_spec");
    group.spec.shape = group.part.shape;
    group.spec.sizes = integers(mesh, "mesh_shape");
    group.mesh = rank_index(field(mesh, "mesh_data"));
    for (const PickleValue& placement : field(data, "placements").items()) {
      const std::string type(field(placement, "type").text().value_or("?"));
      if (type == "Replicate") {
        group.spec.axes.push_back({});
      } else if (type == "Shard" || type == "StridedShard") {
        const bool strided = type == "StridedShard";
        const auto dim = field(placement, "dim").integer();
        const auto factor = strided ? field(placement, "split_factor").integer() : 1;
        if (!dim || !factor) fail(cat("a ", type, " lacks an integer dim or split_factor"));
        group.spec.axes.push_back({true, *dim, *factor});
      } else {
        fail(cat("unknown kind of placement: ", type));
      }
    }
    if (const auto problem = stored::put_in_order(group.spec)) fail(cat("a DTensor ", *problem));
    if (stored::ranks_of(group.spec) != static_cast<int64_t>(group.mesh->size())) {
      fail("the number of ranks of a mesh does not match its shape");
    }
  }

  // Reads the boxes of the global tensor that each rank of `group` stores, and the position of each
  // box in the rank's local tensor.
  void read_boxes(const PickleValue& data, Group& group) const {
    const auto offsets = field(data, "global_offsets").items();
    const auto locals = field(data, "local_offsets").items();
    const auto sizes = field(data, "local_sizes").items();
    if (offsets.size() != sizes.size() || locals.size() != sizes.size()) {
      fail("a tensor does not list an offset for each of its parts");
    }
    stored::DTensorSpec whole{group.part.shape, {}, {}, {}};
    if (const auto problem = stored::put_in_order(whole)) fail(cat("a tensor ", *problem));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto offset = stored::integers_of(&offsets[i]);
      const auto local = stored::integers_of(&locals[i]);
      const auto size = stored::integers_of(&sizes[i]);
      if (!offset || !local || !size)
        fail("the offsets or sizes of a part of a tensor are not integers");
      const size_t dims = whole.shape.size();
      bool inside = offset->size() == dims && local->size() == dims && size->size() == dims;
      for (size_t dim = 0; inside && dim < dims; ++dim) {
        const int64_t all = whole.shape[dim];
        const int64_t first = (*offset)[dim];
        const int64_t length = (*size)[dim];
        inside = first >= 0 && first <= all && length >= 0 && length <= all - first &&
                 (*local)[dim] >= 0;
      }
      if (!inside) fail("a part of a tensor reaches beyond its shape");
      group.part.boxes.push_back({{*offset, *size}, *local});
    }
  }

  Shape integers(const PickleValue& of, std::string_view key) const {
    const auto numbers = stored::integers_of(&field(of, key));
    if (!numbers) fail(cat(key, " is not a list of numbers"));
    return *numbers;
  }

  std::shared_ptr<const RankIndex> rank_index(const PickleValue& list) {
    const auto items = list.items();
    auto& known = ranks_[items.data()];
    if (known) return known;
    auto index = std::make_shared<RankIndex>();
    for (const PickleValue& item : items) {
      const auto rank = item.integer();
      if (!rank || *rank < 0 || *rank >= found_.ranks_)
        fail("a tensor names a rank that is not below world_size");
      if (!index->emplace(*rank, static_cast<int64_t>(index->size())).second) {
        fail(cat("rank ", *rank, " is listed twice for a tensor"));
      }
    }
    return known = std::move(index);
  }

  const std::string& where_;
  TorchCheckpointingMetadata found_;
  std::set<std::string> names_;
  // Caches of converted lists and dicts, which several tensors may share. A key is the address of
  // the first item, which identifies a list or dict of the pickle.
  std::unordered_map<const PickleValue*, std::shared_ptr<const Groups>> groups_;
  std::unordered_map<const PickleValue*, std::shared_ptr<const Group>> single_;
  std::unordered_map<const PickleValue*, std::shared_ptr<const RankIndex>> ranks_;
};

std::filesystem::path usual_file(const std::string& item, int64_t rank) {
  return cat(item, "_", rank, ".pt");
}

TorchCheckpointingMetadata TorchCheckpointingMetadata::read(std::span<const std::byte> bytes,
                                                            const std::string& where) {
  const auto pickle = formats::Pickle::read(bytes, where);
  for (const formats::PickleGlobal& global : pickle.globals()) {
    if (global.alarming) stored::refuse_alarm(where, global);
  }
  return MetadataReader(where).read(pickle.root());
}

std::vector<stored::KeyPath> TorchCheckpointingMetadata::paths() const {
  std::vector<stored::KeyPath> paths;
  for (const auto& [path, groups] : groups_) paths.push_back(path);
  return paths;
}

std::optional<stored::PartPlace> TorchCheckpointingMetadata::place(const stored::KeyPath& path,
                                                                   int64_t rank) const {
  const auto found = groups_.find(path);
  if (found == groups_.end() || rank < 0) return std::nullopt;
  const auto& groups = *found->second;
  for (size_t i = 0; i < groups.size(); ++i) {
    // The search begins at the group whose index is the rank, because often each rank has its own
    // group.
    const Group& group = *groups[(static_cast<size_t>(rank) + i) % groups.size()];
    if (!group.ranks->contains(rank)) continue;
    stored::PartPlace part = group.part;
    if (group.mesh == nullptr) return part;
    const auto place = group.mesh->find(rank);
    if (place == group.mesh->end()) return std::nullopt;
    const Shape coordinate = mesh::coordinates_of(place->second, group.spec.sizes);
    part.fills = true;
    part.boxes = {{stored::part_at(group.spec, coordinate), Shape(part.shape.size(), 0)}};
    return part;
  }
  return std::nullopt;
}

}  // namespace am::frameworks
