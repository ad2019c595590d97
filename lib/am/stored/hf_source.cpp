#include "am/stored/hf_source.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/formats/safetensors.h"
#include "am/formats/weight_files.h"
#include "am/stored/rows.h"
#include "am/stored/state_keys.h"
#include "am/stored/weight_index.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

bool is_safetensors(const fs::path& path) {
  return fs::is_regular_file(path) && path.extension() == ".safetensors";
}

// Hash that allows lookups by std::string_view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

class HfSource : public TensorSource {
 public:
  HfSource(fs::path path, OnDamage damage) : path_(std::move(path)), damage_(damage) {
    open_files();
    size_t tensors = 0;
    for (const auto& file : files_) tensors += file.entries().size();
    places_.reserve(tensors);
    std::vector<Place> places;
    std::vector<KeyPath> paths;
    for (const auto& file : files_) {
      for (const auto& entry : file.entries()) {
        places.push_back({&file, &entry});
        paths.push_back({entry.name});
      }
    }
    std::vector<StateKey> keys = name_state(paths);
    for (size_t i = 0; i < keys.size(); ++i) add(std::move(keys[i]), places[i]);
    compare_index();
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(tensors_.begin(), tensors_.end(), by_name);
    std::sort(optimizer_.begin(), optimizer_.end(), by_name);
  }

  std::string format() const override { return "huggingface"; }
  fs::path path() const override { return path_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::string note() const override { return note_; }
  std::vector<fs::path> data_files() const override { return formats::paths_of(files_); }
  std::vector<StoredProblem> damage() const override { return problems_; }
  fs::path file_of(const StoredTensor& tensor, size_t) const override {
    return place_in(places_, tensor.name, path_).file->path();
  }

  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override {
    const Place& place = place_in(places_, name, path_);
    const auto values = place.file->data(*place.entry);
    copy_box(values, dense_strides(place.entry->shape), box,
             formats::safetensors_dtype_size(place.entry->dtype), out);
    place.file->require_whole();
  }

  bool view(std::string_view name, const mesh::Box& box, const ViewBytes& view) const override {
    const Place& place = place_in(places_, name, path_);
    const Shape& shape = place.entry->shape;
    if (!shape.empty() && !std::equal(shape.begin() + 1, shape.end(), box.shape.begin() + 1)) {
      return false;  // the box does not consist of full rows, so it may not be contiguous
    }
    const auto bytes = bytes_of_rows(place.file->data(*place.entry), shape, box);
    const auto size = static_cast<size_t>(formats::safetensors_dtype_size(place.entry->dtype));
    if (reinterpret_cast<uintptr_t>(bytes.data()) % size != 0) return false;
    view(bytes);
    place.file->require_whole();
    return true;
  }

  void prefetch(std::string_view name, const mesh::Box& box) const override {
    const Place& place = place_in(places_, name, path_);
    populate(bytes_of_rows(place.file->data(*place.entry), place.entry->shape, box));
  }

  fs::path config_file() const override {
    const fs::path folder = folder_of(path_);
    const fs::path config = folder / "config.json";
    return fs::exists(config) ? config : fs::path();
  }

 private:
  struct Place {
    const formats::SafetensorsFile* file;
    const formats::SafetensorsEntry* entry;
  };

  // Opens the file `path_`, or files of the folder `path_`. Chooses the same files as transformers:
  // model.safetensors if it exists, otherwise the files in the index. If both are missing, opens
  // all safetensors files of the folder.
  void open_files() {
    const fs::path index = path_ / kIndexName;
    std::vector<fs::path> paths = {path_};
    if (fs::is_directory(path_)) {
      if (fs::exists(path_ / kSingleName)) {
        paths = {path_ / kSingleName};
      } else if (fs::exists(index)) {
        index_ = read_weight_index(index);
        IndexedFiles files = indexed_files(index, index_, damage_);
        paths = std::move(files.there);
        problems_ = std::move(files.problems);
        missing_ = std::move(files.missing);
      } else {
        paths = formats::safetensors_in(path_);
      }
    }
    for (const fs::path& path : paths) open_file(path);
    if (!files_.empty() || problems_.empty()) return;
    const StoredProblem& first = problems_.front();
    throw Error(ErrorKind::kFormat, cat((path_ / first.where).string(), ": ", first.what),
                "fetch this file again: no other file in the folder holds weights");
  }

  void open_file(const fs::path& path) {
    if (damage_ == OnDamage::kRefuse) {
      files_.push_back(formats::SafetensorsFile::open(path));
      return;
    }
    const std::string name =
        path == path_ ? path.filename().string() : path.lexically_relative(path_).string();
    try {
      files_.push_back(formats::SafetensorsFile::open(path, formats::Truncated::kOpened));
    } catch (const Error& error) {  // the file cannot be read, or its header is invalid
      if (path == path_) throw;     // the caller named this file, not a folder
      problems_.push_back(file_problem(path_, name, error));
      missing_.insert(name);
      return;
    }
    const std::string cut = files_.back().truncation();
    if (!cut.empty()) problems_.push_back({name, cut});
  }

  // Compares the index file with the contents of the weight files. A tensor of the index that no
  // weight file contains is not an error here, because the model may not need the tensor: damage()
  // lists it with OnDamage::kReport, otherwise note() mentions it.
  void compare_index() {
    if (index_.empty()) return;
    std::unordered_map<std::string_view, const formats::SafetensorsFile*> files;
    files.reserve(places_.size());
    for (const auto& [name, place] : places_) files.emplace(place.entry->name, place.file);
    std::vector<StoredProblem> problems = compare_with_index(
        path_ / kIndexName, index_, missing_, damage_, [&](std::string_view name) {
          const auto found = files.find(name);
          return found == files.end() ? fs::path() : found->second->path();
        });
    if (problems.empty()) return;
    if (damage_ == OnDamage::kReport) {
      for (StoredProblem& problem : problems) problems_.push_back(std::move(problem));
      return;
    }
    note_ = cat(kIndexName, " ", problems.front().what,
                problems.size() == 1 ? "" : cat("; and ", problems.size() - 1, " more"));
  }

  void add(StateKey key, const Place& from) {
    const auto [place, fresh] = places_.emplace(key.name, from);
    if (!fresh) {
      const Place& first = place->second;
      const bool alike = first.entry->name == from.entry->name;
      throw Error(ErrorKind::kFormat,
                  alike ? cat(from.entry->name, " is in ", first.file->path().string(), " and in ",
                              from.file->path().string())
                        : cat(path_.string(), ": ", first.entry->name, " and ", from.entry->name,
                              " are both converted to the name ", key.name));
    }
    StoredTensor tensor;
    tensor.name = std::move(key.name);
    tensor.shape = from.entry->shape;
    tensor.dtype = formats::dtype_of_safetensors(from.entry->dtype);
    tensor.shards.push_back({0, mesh::Box::whole(from.entry->shape)});
    (key.parameter ? tensors_ : optimizer_).push_back(std::move(tensor));
  }

  fs::path path_;
  OnDamage damage_;
  std::vector<StoredProblem> problems_;
  std::set<std::string> missing_;  // names of files that are missing or could not be opened
  std::vector<formats::SafetensorsFile> files_;
  WeightIndex index_;  // contents of the index file; empty if the folder is read without one
  std::string note_;
  std::unordered_map<std::string, Place, TextHash, std::equal_to<>> places_;
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
};

}  // namespace

bool is_hf_source(const fs::path& path) {
  if (!fs::is_directory(path)) return is_safetensors(path);
  if (fs::exists(path / kIndexName) || fs::exists(path / kSingleName)) return true;
  for (const char* pickled : {formats::kPytorchModel, formats::kPytorchModelIndex}) {
    if (fs::exists(path / pickled)) return false;
  }
  return std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [](const auto& entry) { return is_safetensors(entry.path()); });
}

std::unique_ptr<TensorSource> open_hf_source(const fs::path& path, OnDamage damage) {
  return std::make_unique<HfSource>(path, damage);
}

}  // namespace am::stored
