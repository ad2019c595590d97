#include "am/checkpoint/hf_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/mapped_tensor.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

bool is_safetensors(const fs::path& path) {
  return fs::is_regular_file(path) && path.extension() == ".safetensors";
}

// The files that an index names, each once. The index must be an object whose weight_map names
// files beside it.
std::vector<fs::path> indexed_files(const fs::path& folder) {
  const fs::path index = folder / kIndexName;
  Diagnostics found;
  const auto json = parse_json(read_file(index), index.string(), found);
  const auto* map = json && json->contains("weight_map") ? &(*json)["weight_map"] : nullptr;
  if (map == nullptr || !map->is_object()) {
    throw Error(ErrorKind::kFormat, cat(index.string(), ": not an index of safetensors files"),
                "expected {\"weight_map\": {name: file, ..}}");
  }
  std::set<std::string> names;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos) {
      throw Error(ErrorKind::kFormat, cat(index.string(), ": ", name, " names no file beside it"));
    }
    names.insert(file.get<std::string>());
  }
  std::vector<fs::path> files;
  for (const auto& name : names) {
    if (!fs::exists(folder / name)) {
      throw Error(ErrorKind::kIo, cat(index.string(), ": names ", name, ", which is not there"));
    }
    files.push_back(folder / name);
  }
  return files;
}

// In transformers' order: model.safetensors, else the index; without either, whatever is there.
std::vector<fs::path> safetensors_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  if (fs::exists(path / kSingleName)) return {path / kSingleName};
  if (fs::exists(path / kIndexName)) return indexed_files(path);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (is_safetensors(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class HfSource : public TensorSource {
 public:
  explicit HfSource(fs::path path) : path_(std::move(path)) {
    for (const auto& file : safetensors_files(path_)) {
      files_.push_back(formats::SafetensorsFile::open(file));
    }
    for (const auto& file : files_) {
      for (const auto& entry : file.entries()) add(file, entry);
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  }

  std::string format() const override { return "huggingface"; }
  fs::path path() const override { return path_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return none_; }

  void read(std::string_view name, const mesh::Box& box, at::Tensor out) const override {
    const auto found = places_.find(name);
    if (found == places_.end()) {
      throw Error(ErrorKind::kFormat, cat(path_.string(), ": no tensor named ", name));
    }
    const at::Tensor mapped = map_entry(*found->second.file, *found->second.entry);
    const Shape origin(box.shape.size(), 0);
    const at::NoGradGuard no_grad;
    out.copy_(tensor::view_box(mapped, origin, box));
  }

  fs::path config_file() const override {
    const fs::path folder = fs::is_directory(path_) ? path_ : path_.parent_path();
    const fs::path config = folder / "config.json";
    return fs::exists(config) ? config : fs::path();
  }

 private:
  struct Place {
    const formats::SafetensorsFile* file;
    const formats::SafetensorsEntry* entry;
  };

  void add(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry) {
    const auto [place, fresh] = places_.emplace(entry.name, Place{&file, &entry});
    if (!fresh) {
      throw Error(ErrorKind::kFormat, cat(entry.name, " is in ", file.path().string(), " and in ",
                                          place->second.file->path().string()));
    }
    StoredTensor tensor;
    tensor.name = entry.name;
    tensor.shape = entry.shape;
    tensor.dtype = tensor::from_safetensors(entry.dtype);
    tensor.shards.push_back({0, mesh::Box::whole(entry.shape)});
    tensors_.push_back(std::move(tensor));
  }

  fs::path path_;
  std::vector<formats::SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> places_;
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> none_;
};

}  // namespace

bool is_hf_source(const fs::path& path) {
  if (!fs::is_directory(path)) return is_safetensors(path);
  if (fs::exists(path / kIndexName)) return true;
  return std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [](const auto& entry) { return is_safetensors(entry.path()); });
}

std::unique_ptr<TensorSource> open_hf_source(const fs::path& path) {
  return std::make_unique<HfSource>(path);
}

}  // namespace am::checkpoint
