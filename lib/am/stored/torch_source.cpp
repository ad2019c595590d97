#include "am/stored/torch_source.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
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

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 4> kExtensions = {".pt", ".pth", ".bin", ".ckpt"};
constexpr std::string_view kTar = "ustar";
constexpr size_t kTarPlace = 257;
constexpr size_t kMostKeys = 4'000'000;
constexpr size_t kDeepestKeys = 16;

std::string first_bytes(const fs::path& path) {
  std::string bytes(kTarPlace + kTar.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

// Of before 2017.
bool is_tar(const std::string& bytes) {
  return bytes.size() == kTarPlace + kTar.size() && ends_with(bytes, kTar);
}

class TorchSource : public TensorSource {
 public:
  explicit TorchSource(const fs::path& path)
      : path_(path),
        file_(path),
        archive_(formats::TorchArchive::read(file_.bytes(), path.string())) {
    for (const auto& global : archive_.pickle().globals()) {
      if (global.alarming) refuse_alarm(path_, global);
    }
    if (archive_.tensor(archive_.root())) {
      add({.name = "tensor", .root = {}, .value = archive_.root()}, false);
    } else {
      walk();
    }
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(tensors_.begin(), tensors_.end(), by_name);
    std::sort(optimizer_.begin(), optimizer_.end(), by_name);
    if (!tensors_.empty() || !optimizer_.empty()) return;
    throw Error(ErrorKind::kFormat,
                cat(path_.string(), ": it holds no tensors in dicts that can be listed"),
                "a model that was saved whole is code; save its state_dict()");
  }

  std::string format() const override {
    return formats::is_legacy_torch(file_.bytes()) ? "torch-legacy" : "torch";
  }
  fs::path path() const override { return path_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  fs::path config_file() const override {
    const fs::path config = path_.parent_path() / "config.json";
    return fs::exists(config) ? config : fs::path();
  }

  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override {
    const formats::TorchTensor& stored = place_in(places_, name, path_);
    copy_box(stored.data, stored.strides, box, formats::torch_dtype_size(stored.dtype), out);
    require_whole(path_, file_.bytes());
  }

 private:
  struct Entry {
    std::string name;
    std::string root;  // the first key of several; empty on the first level
    formats::PickleValue value;
    size_t depth = 0;  // keys that lead to it
  };

  static std::span<const formats::PickleValue> pairs_of(const formats::PickleValue& value) {
    if (value.is_object("collections", "OrderedDict")) return value.contents();
    return value.is(formats::PickleKind::kDict) ? value.items()
                                                : std::span<const formats::PickleValue>();
  }

  // What the dict has, behind `entries`.
  static void list(const Entry& dict, std::vector<Entry>& entries) {
    if (dict.depth == kDeepestKeys) return;
    const std::string root = dict.depth == 1 ? dict.name : dict.root;
    const auto pairs = pairs_of(dict.value);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      std::string key;
      if (const auto text = pairs[i].text()) {
        key = *text;
      } else if (const auto number = pairs[i].integer()) {
        key = std::to_string(*number);  // an optimizer's state counts its parameters
      } else {
        continue;
      }
      entries.push_back(
          {dict.depth == 0 ? key : cat(dict.name, ".", key), root, pairs[i + 1], dict.depth + 1});
    }
  }

  // Level by level, with a bound: dicts may contain themselves.
  void walk() {
    std::vector<Entry> entries;
    list({.name = {}, .root = {}, .value = archive_.root()}, entries);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries.size() > kMostKeys) {
        throw Error(ErrorKind::kFormat, cat(path_.string(), ": more than ", kMostKeys, " keys"));
      }
      const Entry entry = entries[i];
      list(entry, entries);
    }
    const bool nested = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
      return is_model_root(entry.root) && archive_.tensor(entry.value).has_value();
    });
    for (const Entry& entry : entries) add(entry, nested);
  }

  void add(const Entry& entry, bool nested) {
    auto stored = archive_.tensor(entry.value);
    if (!stored) return;
    const StateKey key = state_key(entry.name, entry.root, nested);
    StoredTensor tensor{key.name, stored->shape, formats::dtype_of_torch(stored->dtype), {}};
    tensor.shards.push_back({0, mesh::Box::whole(stored->shape)});
    if (!places_.emplace(key.name, std::move(*stored)).second) {
      throw Error(ErrorKind::kFormat, cat(path_.string(), ": two tensors come out as ", key.name));
    }
    (key.parameter ? tensors_ : optimizer_).push_back(std::move(tensor));
  }

  fs::path path_;
  MappedFile file_;
  formats::TorchArchive archive_;
  std::map<std::string, formats::TorchTensor, std::less<>> places_;
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
};

}  // namespace

bool is_torch_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  if (std::find(kExtensions.begin(), kExtensions.end(), extension) == kExtensions.end()) {
    return false;
  }
  if (!fs::is_regular_file(path)) return false;
  const std::string bytes = first_bytes(path);
  const auto begin = std::as_bytes(std::span(bytes));
  return formats::is_zip(begin) || formats::is_legacy_torch(begin) || is_tar(bytes);
}

std::unique_ptr<TensorSource> open_torch_source(const fs::path& path) {
  if (is_tar(first_bytes(path))) {
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": a tar of PyTorch before 2017, which is not read"),
                "where its code may run, torch.save(torch.load(FILE, weights_only=False), FILE) "
                "writes today's format");
  }
  return std::make_unique<TorchSource>(path);
}

}  // namespace am::stored
