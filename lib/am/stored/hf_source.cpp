#include "am/stored/hf_source.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/formats/safetensors.h"
#include "am/stored/rows.h"
#include "am/stored/weight_index.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

bool is_safetensors(const fs::path& path) {
  return fs::is_regular_file(path) && path.extension() == ".safetensors";
}

class HfSource : public TensorSource {
 public:
  HfSource(fs::path path, Damage damage) : path_(std::move(path)), damage_(damage) {
    open_files();
    size_t tensors = 0;
    for (const auto& file : files_) tensors += file.entries().size();
    places_.reserve(tensors);
    tensors_.reserve(tensors);
    for (const auto& file : files_) {
      for (const auto& entry : file.entries()) add(file, entry);
    }
    check_index();
    std::sort(tensors_.begin(), tensors_.end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  }

  std::string format() const override { return "huggingface"; }
  fs::path path() const override { return path_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return none_; }
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

  bool see(std::string_view name, const mesh::Box& box, const SeeBytes& see) const override {
    const Place& place = place_in(places_, name, path_);
    const Shape& shape = place.entry->shape;
    if (!shape.empty() && !std::equal(shape.begin() + 1, shape.end(), box.shape.begin() + 1)) {
      return false;  // not whole rows
    }
    const auto bytes = bytes_of_rows(place.file->data(*place.entry), shape, box);
    const auto size = static_cast<size_t>(formats::safetensors_dtype_size(place.entry->dtype));
    if (reinterpret_cast<uintptr_t>(bytes.data()) % size != 0) return false;
    see(bytes);
    place.file->require_whole();
    return true;
  }

  void will_read(std::string_view name, const mesh::Box& box) const override {
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

  // In transformers' order: model.safetensors, else the index; without either, whatever is there.
  void open_files() {
    const fs::path index = path_ / kIndexName;
    std::vector<fs::path> paths = {path_};
    if (fs::is_directory(path_)) {
      if (fs::exists(path_ / kSingleName)) {
        paths = {path_ / kSingleName};
      } else if (fs::exists(index)) {
        index_ = read_weight_index(index);
        paths = indexed_files(index);
      } else {
        paths = formats::safetensors_in(path_);
      }
    }
    for (const fs::path& path : paths) open_file(path);
    if (!files_.empty() || problems_.empty()) return;
    const StoredProblem& first = problems_.front();
    throw Error(ErrorKind::kFormat, cat((path_ / first.where).string(), ": ", first.what),
                "no other file here holds weights");
  }

  // Those that the index names, each once; one that is not there is damage.
  std::vector<fs::path> indexed_files(const fs::path& index) {
    std::map<std::string, int64_t> names;  // and how many tensors each has
    for (const auto& [name, file] : index_) ++names[file];
    std::vector<fs::path> files;
    for (const auto& [name, tensors] : names) {
      const fs::path file = index.parent_path() / name;
      if (fs::exists(file)) {
        files.push_back(file);
      } else if (damage_ == Damage::kRefused) {
        throw Error(ErrorKind::kIo, cat(index.string(), ": names ", name, ", which is not there"));
      } else {
        problems_.push_back({name, cat("it is not there; tensors that ", kIndexName,
                                       " says are in it: ", format_count(tensors))});
        missing_.insert(name);
      }
    }
    return files;
  }

  void open_file(const fs::path& path) {
    if (damage_ == Damage::kRefused) {
      files_.push_back(formats::SafetensorsFile::open(path));
      return;
    }
    const std::string name = path.filename().string();
    try {
      files_.push_back(formats::SafetensorsFile::open(path, formats::Truncated::kOpened));
    } catch (const Error& error) {  // no header that says what is in it
      if (path == path_) throw;     // and nothing else to look at
      problems_.push_back(file_problem(path_, name, error));
      missing_.insert(name);
      return;
    }
    const std::string cut = files_.back().truncation();
    if (!cut.empty()) problems_.push_back({name, cut});
  }

  // Each tensor is where the index says; what the files hold beyond it is shown as well.
  void check_index() {
    for (const auto& [name, file] : index_) {
      if (missing_.contains(file)) continue;
      const auto place = places_.find(name);
      if (place != places_.end() && place->second.file->path().filename() == file) continue;
      const std::string what =
          cat("says that ", name, " is in ", file,
              place == places_.end()
                  ? ", which has no such tensor"
                  : cat(", but it is in ", place->second.file->path().filename().string()));
      if (damage_ == Damage::kListed) {
        problems_.push_back({kIndexName, what});
        continue;
      }
      throw Error(ErrorKind::kFormat, cat((path_ / kIndexName).string(), ": ", what),
                  "the index belongs to other files; fetch all of them again");
    }
  }

  void add(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry) {
    const auto [place, fresh] = places_.emplace(entry.name, Place{&file, &entry});
    if (!fresh) {
      throw Error(ErrorKind::kFormat, cat(entry.name, " is in ", file.path().string(), " and in ",
                                          place->second.file->path().string()));
    }
    StoredTensor tensor;
    tensor.name = entry.name;
    tensor.shape = entry.shape;
    tensor.dtype = formats::dtype_of_safetensors(entry.dtype);
    tensor.shards.push_back({0, mesh::Box::whole(entry.shape)});
    tensors_.push_back(std::move(tensor));
  }

  fs::path path_;
  Damage damage_;
  std::vector<StoredProblem> problems_;
  std::set<std::string> missing_;  // files whose tensors are not known
  std::vector<formats::SafetensorsFile> files_;
  WeightIndex index_;                                   // empty without an index
  std::unordered_map<std::string_view, Place> places_;  // names are the entries'
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

std::unique_ptr<TensorSource> open_hf_source(const fs::path& path, Damage damage) {
  return std::make_unique<HfSource>(path, damage);
}

}  // namespace am::stored
