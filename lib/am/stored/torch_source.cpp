#include "am/stored/torch_source.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/formats/torch_archive.h"
#include "am/formats/torch_legacy.h"
#include "am/formats/zip_records.h"
#include "am/stored/state_keys.h"
#include "am/stored/strided_copy.h"
#include "am/stored/weight_index.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 4> kExtensions = {".pt", ".pth", ".bin", ".ckpt"};
constexpr std::string_view kTar = "ustar";
constexpr size_t kTarPlace = 257;
constexpr size_t kMostKeys = 4'000'000;
constexpr size_t kDeepestKeys = 16;

std::string first_bytes(const fs::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes().first(std::min(file.bytes().size(), kTarPlace + kTar.size()));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of before 2017.
bool is_tar(const std::string& bytes) {
  return bytes.size() == kTarPlace + kTar.size() && ends_with(bytes, kTar);
}

// A file, and the dict in which its state lies among those of its folder: {"optimizer"}.
struct TorchPart {
  fs::path path;
  KeyPath holder = {};
};

class TorchSource : public TensorSource {
 public:
  TorchSource(fs::path path, const std::vector<TorchPart>& parts,
              std::vector<StoredProblem> problems)
      : path_(std::move(path)), problems_(std::move(problems)) {
    std::vector<KeyPath> paths;
    std::vector<Place> found;
    for (const TorchPart& part : parts) {
      const File& file = *files_.emplace_back(std::make_unique<File>(part.path));
      const size_t before = paths.size();
      list_tensors(file, paths, found);
      for (size_t i = before; i < paths.size(); ++i) {
        paths[i].insert(paths[i].begin(), part.holder.begin(), part.holder.end());
      }
    }
    std::vector<StateKey> keys = name_state(paths);
    for (size_t i = 0; i < keys.size(); ++i) add(std::move(keys[i]), std::move(found[i]));
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(tensors_.begin(), tensors_.end(), by_name);
    std::sort(optimizer_.begin(), optimizer_.end(), by_name);
    if (!tensors_.empty() || !optimizer_.empty()) return;
    throw Error(ErrorKind::kFormat,
                cat(path_.string(), ": it holds no tensors in dicts that can be listed"),
                "a model that was saved whole is code; save its state_dict()");
  }

  std::string format() const override {
    return formats::is_legacy_torch(files_.front()->map.bytes()) ? "torch-legacy" : "torch";
  }
  fs::path path() const override { return path_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  fs::path config_file() const override {
    const fs::path config = folder_of(path_) / "config.json";
    return fs::exists(config) ? config : fs::path();
  }

  std::vector<fs::path> data_files() const override {
    std::vector<fs::path> paths;
    for (const auto& file : files_) paths.push_back(file->path);
    return paths;
  }
  std::vector<StoredProblem> damage() const override { return problems_; }
  fs::path file_of(const StoredTensor& tensor, size_t /*shard*/) const override {
    return place_in(places_, tensor.name, path_).file->path;
  }

  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override {
    const auto& [file, stored] = place_in(places_, name, path_);
    copy_box(stored.data, stored.strides, box, formats::torch_dtype_size(stored.dtype), out);
    require_whole(file->path, file->map.bytes());
  }

 private:
  struct File {
    explicit File(const fs::path& from)
        : path(from), map(from), archive(formats::TorchArchive::read(map.bytes(), from.string())) {
      for (const auto& global : archive.pickle().globals()) {
        if (global.alarming) refuse_alarm(path, global);
      }
    }

    fs::path path;
    MappedFile map;
    formats::TorchArchive archive;
  };
  struct Place {
    const File* file;
    formats::TorchTensor tensor;
  };

  // A value of a nested state, and the dict or list that holds it.
  struct Entry {
    std::string key;
    size_t holder = kTop;  // in the list of entries
    formats::PickleValue value;
    size_t depth = 1;  // keys that lead to it
  };
  static constexpr size_t kTop = std::numeric_limits<size_t>::max();

  // The value itself of what C++ has saved with its type: torch::pickle_save.
  static formats::PickleValue without_type(const formats::PickleValue& value) {
    const bool typed = value.is_object("torch.jit._pickle", "restore_type_tag");
    return typed && !value.arguments().items().empty() ? value.arguments().items().front() : value;
  }

  static bool holds_more(const formats::PickleValue& value) {
    using formats::PickleKind;
    return value.is(PickleKind::kDict) || value.is(PickleKind::kList) ||
           value.is(PickleKind::kTuple) || value.is_object("collections", "OrderedDict");
  }

  // Key and value of each entry of a dict; place and value of each dict, list or tensor in a list.
  static void list(const formats::TorchArchive& archive, const formats::PickleValue& value,
                   size_t holder, size_t depth, std::vector<Entry>& entries) {
    using formats::PickleKind;
    if (depth == kDeepestKeys || !holds_more(value)) return;
    const auto add = [&](std::string key, const formats::PickleValue& held) {
      entries.push_back({std::move(key), holder, without_type(held), depth + 1});
    };
    if (value.is(PickleKind::kList) || value.is(PickleKind::kTuple)) {
      for (size_t i = 0; i < value.items().size(); ++i) {
        const formats::PickleValue& item = value.items()[i];
        if (holds_more(without_type(item)) || archive.tensor(item)) add(std::to_string(i), item);
      }
      return;
    }
    const auto pairs = value.is(PickleKind::kDict) ? value.items() : value.contents();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (const auto text = pairs[i].text()) {
        add(std::string(*text), pairs[i + 1]);
      } else if (const auto number = pairs[i].integer()) {
        add(std::to_string(*number), pairs[i + 1]);  // an optimizer's state counts its parameters
      }
    }
  }

  static KeyPath path_of(const std::vector<Entry>& entries, size_t entry) {
    KeyPath path;
    for (; entry != kTop; entry = entries[entry].holder) path.push_back(entries[entry].key);
    std::reverse(path.begin(), path.end());
    return path;
  }

  // Level by level, with a bound: dicts may contain themselves.
  static void list_tensors(const File& file, std::vector<KeyPath>& paths,
                           std::vector<Place>& found) {
    if (auto tensor = file.archive.tensor(file.archive.root())) {
      paths.push_back({"tensor"});
      found.push_back({&file, *std::move(tensor)});
      return;
    }
    std::vector<Entry> entries;
    list(file.archive, without_type(file.archive.root()), kTop, 0, entries);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries.size() > kMostKeys) {
        throw Error(ErrorKind::kFormat,
                    cat(file.path.string(), ": more than ", kMostKeys, " keys"));
      }
      const formats::PickleValue value = entries[i].value;
      if (auto tensor = file.archive.tensor(value)) {
        paths.push_back(path_of(entries, i));
        found.push_back({&file, *std::move(tensor)});
      } else {
        list(file.archive, value, i, entries[i].depth, entries);
      }
    }
  }

  void add(StateKey key, Place place) {
    const formats::TorchTensor& stored = place.tensor;
    StoredTensor tensor{key.name, stored.shape, formats::dtype_of_torch(stored.dtype), {}};
    tensor.shards.push_back({0, mesh::Box::whole(stored.shape)});
    if (!places_.emplace(key.name, std::move(place)).second) {
      throw Error(ErrorKind::kFormat, cat(path_.string(), ": two tensors come out as ", key.name));
    }
    (key.parameter ? tensors_ : optimizer_).push_back(std::move(tensor));
  }

  fs::path path_;
  std::vector<StoredProblem> problems_;
  std::vector<std::unique_ptr<File>> files_;  // views and places point into them
  std::map<std::string, Place, std::less<>> places_;
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
};

constexpr const char* kSingle = "pytorch_model.bin";
constexpr const char* kIndex = "pytorch_model.bin.index.json";
// accelerate's, of a model that FSDP shards, gathered; its optimizer's states by parameters' names.
constexpr const char* kGathered = "pytorch_model_fsdp.bin";
constexpr const char* kGatheredOptimizer = "optimizer.bin";
// Files that trainers write beside a model's.
constexpr std::array<std::string_view, 7> kNoModels = {
    "optimizer*",     "scheduler*", "rng_state*", "random_states*",
    "training_args*", "scaler*",    "sampler*"};

bool is_torch_file(const fs::path& path) {
  const std::string extension = path.extension().string();
  if (std::find(kExtensions.begin(), kExtensions.end(), extension) == kExtensions.end()) {
    return false;
  }
  if (!fs::is_regular_file(path)) return false;
  const std::string bytes = first_bytes(path);
  const auto begin = std::as_bytes(std::span(bytes));
  return formats::is_zip(begin) || formats::is_legacy_torch(begin) || is_tar(bytes);
}

// Files of a folder that may be a model's, where none has a name that says so.
std::vector<fs::path> unnamed_models(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool other =
        std::any_of(kNoModels.begin(), kNoModels.end(),
                    [&](std::string_view pattern) { return glob_match(pattern, name); });
    if (!other && is_torch_file(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return found;
}

std::unique_ptr<TensorSource> open_indexed(const fs::path& folder, Damage damage) {
  const fs::path path = folder / kIndex;
  const WeightIndex index = read_weight_index(path);
  IndexedFiles files = indexed_files(path, index, damage);
  std::vector<TorchPart> parts;
  for (const fs::path& file : files.there) parts.push_back({file});
  if (parts.empty()) {
    throw Error(ErrorKind::kFormat, cat(path.string(), ": none of its files is there"));
  }
  return std::make_unique<TorchSource>(folder, parts, std::move(files.problems));
}

}  // namespace

bool is_torch_source(const fs::path& path) {
  if (!fs::is_directory(path)) return is_torch_file(path);
  return is_torch_file(path / kSingle) || fs::is_regular_file(path / kIndex) ||
         !unnamed_models(path).empty();
}

std::unique_ptr<TensorSource> open_torch_source(const fs::path& path, Damage damage) {
  std::vector<TorchPart> parts = {{path}};
  if (fs::is_directory(path)) {
    if (is_torch_file(path / kSingle)) {
      parts = {{path / kSingle}};
    } else if (fs::is_regular_file(path / kIndex)) {
      return open_indexed(path, damage);
    } else if (is_torch_file(path / kGathered)) {
      parts = {{path / kGathered}};
      if (is_torch_file(path / kGatheredOptimizer)) {
        parts.push_back({path / kGatheredOptimizer, {"optimizer"}});
      }
    } else {
      const std::vector<fs::path> files = unnamed_models(path);
      if (files.size() > 1) {
        throw Error(ErrorKind::kFormat,
                    cat(path.string(), ": ", files.size(),
                        " files may hold its model: ", files[0].filename().string(), ", ",
                        files[1].filename().string(), files.size() > 2 ? ", .." : ""),
                    "open one of them by its name");
      }
      parts = {{files.at(0)}};
    }
  }
  for (const TorchPart& part : parts) {
    if (!is_tar(first_bytes(part.path))) continue;
    throw Error(ErrorKind::kFormat,
                cat(part.path.string(), ": a tar of PyTorch before 2017, which is not read"),
                "where its code may run, torch.save(torch.load(FILE, weights_only=False), FILE) "
                "writes today's format");
  }
  return std::make_unique<TorchSource>(path, parts, std::vector<StoredProblem>());
}

}  // namespace am::stored
