#include "am/stored/dialects/torch_checkpointing.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/formats/pickle.h"
#include "am/stored/dialects/hub_config.h"
#include "am/stored/torch_source.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

using formats::PickleValue;

constexpr const char* kMetadata = "metadata.pkl";
constexpr std::string_view kVersion = "2.0";
constexpr int64_t kMostRanks = 1 << 20;

struct ItemFile {
  std::string item;
  int64_t rank = 0;
  fs::path path;
};

// "model" and 3 of "model_3.pt"; nothing for another name.
std::optional<ItemFile> item_file(const fs::path& path) {
  const std::string name = path.stem().string();
  const size_t at = name.rfind('_');
  if (path.extension() != ".pt" || at == std::string::npos || at == 0) return std::nullopt;
  const auto rank = parse_integer(std::string_view(name).substr(at + 1));
  if (!rank || *rank < 0) return std::nullopt;
  return ItemFile{name.substr(0, at), *rank, path};
}

std::vector<ItemFile> files_by_name(const fs::path& folder) {
  std::vector<ItemFile> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (auto file = item_file(entry.path())) files.push_back(*std::move(file));
  }
  return files;
}

// What metadata.pkl says of the files, and of tensors that are no DTensors.
class MetadataReader {
 public:
  explicit MetadataReader(const fs::path& folder)
      : folder_(folder),
        path_(folder / kMetadata),
        file_(path_),
        pickle_(formats::Pickle::read(file_.bytes(), path_.string())) {
    for (const formats::PickleGlobal& global : pickle_.globals()) {
      if (global.alarming) refuse_alarm(path_, global);
    }
  }

  std::vector<ItemFile> files() const {
    const PickleValue root = pickle_.root();
    const PickleValue* version = root.find("version");
    if (version == nullptr || version->text() != kVersion) {
      fail(cat("it is not of version ", kVersion, " of torch_checkpointing's metadata"));
    }
    const int64_t ranks = integer(root, "world_size");
    if (ranks < 1 || ranks > kMostRanks) fail("its world_size is none");
    std::vector<ItemFile> files;
    each(field(root, "metadata"), [&](const std::string& item, const PickleValue& of) {
      require_dtensors(item, of);
      const PickleValue& layouts = field(of, "rank_to_layout_info");
      for (int64_t rank = 0; rank < ranks; ++rank) {
        if (auto path = path_of(item, rank, layouts)) files.push_back({item, rank, *path});
      }
    });
    return files;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kFormat, cat(path_.string(), ": ", what),
                "load it with torch_checkpointing, and save it with torch.distributed.checkpoint");
  }

  const PickleValue& field(const PickleValue& dict, std::string_view key) const {
    const PickleValue* value = dict.find(key);
    if (value == nullptr) fail(cat("it lacks ", key));
    return *value;
  }

  int64_t integer(const PickleValue& dict, std::string_view key) const {
    const auto number = field(dict, key).integer();
    if (!number) fail(cat(key, " is no number"));
    return *number;
  }

  template <typename Look>
  void each(const PickleValue& dict, const Look& look) const {
    for (size_t i = 0; i + 1 < dict.items().size(); i += 2) {
      const auto key = dict.items()[i].text();
      if (!key) fail("a key of it is no text");
      look(std::string(*key), dict.items()[i + 1]);
    }
  }

  void require_dtensors(const std::string& item, const PickleValue& of) const {
    each(field(of, "nested_path_to_metadata"),
         [&](const std::string& path, const PickleValue& groups) {
           for (const PickleValue& group : groups.items()) {
             const auto type = field(field(group, "sharding_metadata"), "type").text();
             if (type != "DTensorShardingMetadata") {
               fail(cat(item, " ", path, " is described as ", type.value_or("what is no text"),
                        ", and only DTensors are read"));
             }
           }
         });
  }

  // Nothing for an item that holds no tensors.
  std::optional<fs::path> path_of(const std::string& item, int64_t rank,
                                  const PickleValue& layouts) const {
    const auto& pairs = layouts.items();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (pairs[i].integer() != rank || !pairs[i + 1].is(formats::PickleKind::kDict)) continue;
      const auto name = field(pairs[i + 1], "file_path").text();
      const auto format = field(field(pairs[i + 1], "serialization_format"), "type").text();
      if (format == "JsonSerialization" || format == "RawSerialization") return std::nullopt;
      if (format != "TorchSerialization" || !name) {
        fail(cat(item, " is stored as ", format.value_or("nothing"), ", which is not read"));
      }
      const fs::path file = fs::path(*name).lexically_normal();
      if (!file.has_filename() || file.is_absolute() || *file.begin() == "..") {
        fail(cat(item, "'s file is outside of the folder: ", *name));
      }
      return folder_ / file;
    }
    return folder_ / cat(item, "_", rank, ".pt");
  }

  fs::path folder_;
  fs::path path_;
  MappedFile file_;
  formats::Pickle pickle_;
};

}  // namespace

bool is_torch_checkpointing(const fs::path& path) {
  if (!fs::is_directory(path)) return false;
  const bool first = fs::is_regular_file(path / "model_0.pt");
  return first &&
         (fs::is_regular_file(path / kMetadata) || fs::is_regular_file(path / "model_1.pt"));
}

std::unique_ptr<TensorSource> open_torch_checkpointing(const fs::path& path, Damage damage) {
  std::vector<ItemFile> files =
      fs::is_regular_file(path / kMetadata) ? MetadataReader(path).files() : files_by_name(path);
  std::sort(files.begin(), files.end(), [](const ItemFile& a, const ItemFile& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.item < b.item;
  });
  const fs::path above = fs::absolute(path).lexically_normal().parent_path();
  TorchFiles all{.format = "torch-checkpointing",
                 .path = path,
                 .by_rank = true,
                 .config_file = find_hub_config({path, above}).file,
                 .damage = damage};
  for (const ItemFile& file : files) {
    if (fs::is_regular_file(file.path)) {
      all.parts.push_back({file.path, {file.item}, file.rank});
    } else if (damage == Damage::kRefused) {
      throw Error(ErrorKind::kIo,
                  cat(file.path.string(), ": it is not there, and ", kMetadata, " names it"));
    } else {
      all.problems.push_back({file.path.lexically_relative(path).string(), "it is not there"});
    }
  }
  if (all.parts.empty()) {
    throw Error(ErrorKind::kFormat, cat(path.string(), ": none of its files is there"));
  }
  return open_torch_files(std::move(all));
}

}  // namespace am::stored
