#include "am/stored/hf_shards_source.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/formats/safetensors.h"
#include "am/mesh/cover.h"
#include "am/model/inventory.h"
#include "am/stored/hub_config.h"
#include "am/stored/rows.h"
#include "am/stored/state_keys.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";
constexpr const char* kOffsets = "saved_offsets";

bool is_shard_name(std::string_view name) {
  return glob_match("shard-*-model-*-of-*.safetensors", name);
}

// Returns the rank that wrote a file, for example 2 for
// "shard-00003-model-00001-of-00002.safetensors"; 0 for other names.
int64_t rank_of_file(const fs::path& path) {
  const auto parts = split(path.filename().string(), '-');
  const auto number = parts.size() > 1 ? parse_integer(parts[1]) : std::nullopt;
  return std::max<int64_t>(number.value_or(1) - 1, 0);
}

std::vector<fs::path> files_of(const fs::path& path) {
  return fs::is_directory(path) ? formats::safetensors_in(path) : std::vector<fs::path>{path};
}

class HfShardsSource : public TensorSource {
 public:
  HfShardsSource(fs::path folder, const HubConfig& config, OnDamage damage)
      : folder_(std::move(folder)), config_file_(config.file) {
    open_files(damage);
    name_tensors();
    for (const auto& file : files_) add(file);
    for (auto& [name, tensor] : by_name_) {
      for (StoredShard& shard : tensor.shards) grow(tensor.shape, shard.box);
      if (damage == OnDamage::kRefuse) {
        require_covered(tensor, folder_);
      } else if (const auto why = why_not_covered(tensor)) {
        damage_.push_back({name, *why});
        torn_.insert(name);
      }
      tensors_.push_back(tensor);
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
    if (config.config) compare(*config.config, damage);
  }

  std::string format() const override { return "dcp-huggingface"; }
  fs::path path() const override { return folder_; }
  std::string note() const override { return note_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return none_; }
  fs::path config_file() const override { return config_file_; }
  std::vector<fs::path> data_files() const override { return formats::paths_of(files_); }
  std::vector<StoredProblem> damage() const override { return damage_; }
  fs::path file_of(const StoredTensor& tensor, size_t shard) const override {
    return place_in(places_, tensor.name, folder_)[shard].file->path();
  }

  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override {
    if (torn_.contains(name)) {
      std::vector<mesh::Box> held;
      for (const Place& place : place_in(places_, name, folder_)) held.push_back(place.box);
      require_held(held, box, name, folder_);
    }
    for (const Place& place : place_in(places_, name, folder_)) {
      const auto common = mesh::intersect(place.box, box);
      if (!common) continue;
      const int64_t element = formats::safetensors_dtype_size(place.entry->dtype);
      copy_box(place.file->data(*place.entry), dense_strides(place.entry->shape),
               inside(place.box, *common), element, out.part(inside(box, *common).offset, element));
      place.file->require_whole();
    }
  }
  void prefetch(std::string_view name, const mesh::Box& box) const override {
    for (const Place& place : place_in(places_, name, folder_)) {
      const auto common = mesh::intersect(place.box, box);
      if (!common) continue;
      populate(own_rows(place.file->data(*place.entry), place.box, *common));
    }
  }

 private:
  struct Place {
    const formats::SafetensorsFile* file;
    const formats::SafetensorsEntry* entry;
    mesh::Box box;
  };

  void open_files(OnDamage damage) {
    const auto truncated =
        damage == OnDamage::kRefuse ? formats::Truncated::kRefused : formats::Truncated::kOpened;
    for (const fs::path& path : files_of(folder_)) {
      try {
        files_.push_back(formats::SafetensorsFile::open(path, truncated));
      } catch (const Error& error) {
        if (damage == OnDamage::kRefuse) throw;
        damage_.push_back(file_problem(folder_, path.filename().string(), error));
        continue;
      }
      const std::string cut = files_.back().truncation();
      if (!cut.empty()) damage_.push_back({path.filename().string(), cut});
    }
  }

  [[noreturn]] static void fail(const formats::SafetensorsFile& file, const std::string& what) {
    throw Error(ErrorKind::kFormat, cat(file.path().string(), ": ", what),
                "torch.distributed.checkpoint did not write this file with the others; remove it "
                "from the folder, or fetch it again");
  }

  // Derives the tensors' names from the set of names in all files, because several files contain
  // parts of one tensor under the same name.
  void name_tensors() {
    std::set<std::string> stored;
    for (const auto& file : files_) {
      for (const auto& entry : file.entries()) stored.insert(entry.name);
    }
    std::vector<KeyPath> paths;
    for (const std::string& name : stored) paths.push_back({name});
    std::vector<StateKey> keys = name_state(paths);
    for (size_t i = 0; i < keys.size(); ++i) {
      names_.emplace(paths[i].front(), std::move(keys[i].name));
    }
  }

  void add(const formats::SafetensorsFile& file) {
    const auto info = file.metadata().find(kShardingInfo);
    if (info == file.metadata().end()) fail(file, cat("has no ", kShardingInfo));
    Diagnostics found;
    const auto json = parse_sorted_json(info->second, file.path().string(), found);
    if (!json || !json->is_object()) fail(file, cat(kShardingInfo, " is not a JSON object"));
    for (const auto& entry : file.entries()) {
      mesh::Box box{offset_of(file, *json, entry), entry.shape};
      const std::string& name = names_.at(entry.name);
      StoredTensor& tensor = by_name_[name];
      const formats::Dtype dtype = formats::dtype_of_safetensors(entry.dtype);
      if (tensor.name.empty()) {
        tensor = {name, Shape(entry.shape.size(), 0), dtype, {}};
      } else if (tensor.dtype != dtype || tensor.shape.size() != entry.shape.size()) {
        fail(file,
             cat(entry.name, " has a dtype or number of dims that differs from an earlier file"));
      }
      tensor.shards.push_back({rank_of_file(file.path()), box});
      places_[name].push_back({&file, &entry, std::move(box)});
    }
  }

  static Shape offset_of(const formats::SafetensorsFile& file, const SortedJson& json,
                         const formats::SafetensorsEntry& entry) {
    const auto of = json.find(entry.name);
    const bool known = of != json.end() && of->is_object() && of->contains(kOffsets);
    if (!known) fail(file, cat(entry.name, " has no entry in ", kShardingInfo));
    const SortedJson& list = (*of)[kOffsets];
    Shape offset;
    if (list.is_array() && list.size() == entry.shape.size()) {
      for (const SortedJson& number : list) {
        int64_t end = 0;
        if (!number.is_number_integer()) break;
        offset.push_back(number.get<int64_t>());
        const bool fits =
            offset.back() >= 0 &&
            !__builtin_add_overflow(offset.back(), entry.shape[offset.size() - 1], &end);
        if (!fits) fail(file, cat(entry.name, " has a negative or too large offset"));
      }
    }
    if (offset.size() != entry.shape.size()) {
      fail(file,
           cat(entry.name, " must have an offset with one integer for each dim of its shape"));
    }
    return offset;
  }

  static void grow(Shape& shape, const mesh::Box& box) {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      shape[dim] = std::max(shape[dim], box.offset[dim] + box.shape[dim]);
    }
  }

  // Compares the stored shapes with the shapes that the config requires. Only this comparison can
  // detect that the last rank's file is missing, because no file contains the number of ranks. A
  // tensor that is too small along a dim is damaged. note() mentions the first tensor with another
  // difference.
  void compare(const model::ModelConfig& config, OnDamage damage) {
    for (const model::ParameterSpec& parameter : model::build_inventory(config).parameters) {
      const StoredTensor* stored = find(parameter.name);
      if (stored == nullptr || stored->shape == parameter.shape) continue;
      const std::string shapes =
          cat("is ", shape_text(stored->shape), " in these files and ", shape_text(parameter.shape),
              " according to ", config_file_.filename().string());
      if (is_smaller(stored->shape, parameter.shape)) {
        const std::string what = cat(shapes, ": the file of the last rank is missing");
        if (damage == OnDamage::kRefuse) {
          throw Error(ErrorKind::kFormat, cat(folder_.string(), ": ", stored->name, " ", what),
                      "fetch all files of the folder");
        }
        damage_.push_back({stored->name, what});
      } else if (note_.empty()) {
        note_ = cat(stored->name, " ", shapes, ": files of an earlier save may remain");
      }
    }
  }

  static bool is_smaller(const Shape& stored, const Shape& wanted) {
    if (stored.size() != wanted.size()) return false;
    for (size_t dim = 0; dim < stored.size(); ++dim) {
      if (stored[dim] < wanted[dim]) return true;
    }
    return false;
  }

  fs::path folder_;
  fs::path config_file_;
  std::string note_;
  std::vector<formats::SafetensorsFile> files_;
  std::map<std::string, std::string> names_;  // name in the files -> name in tensors()
  std::map<std::string, StoredTensor> by_name_;
  std::map<std::string, std::vector<Place>, std::less<>> places_;
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> none_;
  std::vector<StoredProblem> damage_;
  std::set<std::string, std::less<>> torn_;  // names of tensors whose parts overlap or leave a gap
};

}  // namespace

bool is_hf_shards_source(const fs::path& path) {
  if (!fs::exists(path)) return false;
  const auto files = files_of(path);
  const bool only_shards = std::all_of(files.begin(), files.end(), [](const fs::path& file) {
    return is_shard_name(file.filename().string());
  });
  if (files.empty() || !only_shards) return false;
  return formats::SafetensorsFile::open(files.front(), formats::Truncated::kOpened)
      .metadata()
      .contains(kShardingInfo);
}

std::unique_ptr<TensorSource> open_hf_shards_source(const fs::path& folder,
                                                    const std::vector<fs::path>& config_folders,
                                                    OnDamage damage) {
  return std::make_unique<HfShardsSource>(folder, find_hub_config(config_folders), damage);
}

}  // namespace am::stored
