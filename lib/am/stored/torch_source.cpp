#include "am/stored/torch_source.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <set>
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
#include "am/formats/weight_files.h"
#include "am/formats/zip_records.h"
#include "am/stored/rows.h"
#include "am/stored/state_keys.h"
#include "am/stored/strided_copy.h"
#include "am/stored/torch_entries.h"
#include "am/stored/torch_pieces.h"
#include "am/stored/weight_index.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 4> kExtensions = {".pt", ".pth", ".bin", ".ckpt"};
constexpr std::string_view kTar = "ustar";
constexpr size_t kTarPlace = 257;
constexpr std::string_view kSharded = "torch.distributed._shard.";
constexpr int64_t kMostMissing = 1 << 16;
const KeyPath kStepItem = {"step"};

std::string first_bytes(const fs::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes().first(std::min(file.bytes().size(), kTarPlace + kTar.size()));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whether a file that begins with `bytes` is a tar archive, the format of PyTorch before 2017.
bool is_tar(const std::string& bytes) {
  return bytes.size() == kTarPlace + kTar.size() && ends_with(bytes, kTar);
}

class TorchSource : public TensorSource {
 public:
  explicit TorchSource(TorchFiles what) : what_(std::move(what)) {
    std::vector<KeyPath> paths;
    std::vector<Piece> pieces;
    for (const TorchPart& part : what_.parts) {
      if (const File* file = open(part)) list(*file, part, paths, pieces);
    }
    find_missing();
    std::vector<StateKey> keys = name_state(paths);
    for (size_t i = 0; i < keys.size(); ++i) add(keys[i], std::move(pieces[i]));
    for (auto* list : {&tensors_, &optimizer_}) {
      std::sort(list->begin(), list->end(),
                [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
      for (StoredTensor& tensor : *list) check_covered(tensor);
    }
    if (!tensors_.empty() || !optimizer_.empty()) return;
    throw Error(
        ErrorKind::kFormat,
        cat(what_.path.string(), ": no state_dict was found: the file holds no dict of tensors"),
        "if the whole model was saved, save its state_dict() instead: a pickled model is code");
  }

  std::string format() const override {
    if (!what_.format.empty()) return what_.format;
    return formats::is_legacy_torch(files_.front()->map.bytes()) ? "torch-legacy" : "torch";
  }
  fs::path path() const override { return what_.path; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override {
    std::vector<std::string> names;
    for (const auto& [name, value] : values_) names.push_back(name);
    return names;
  }
  bool visit_value(std::string_view name, const VisitValue& view) const override {
    const auto found = values_.find(name);
    if (found == values_.end()) return false;
    view(found->second);
    return true;
  }
  std::optional<int64_t> step() const override { return what_.step; }
  fs::path config_file() const override {
    if (!what_.config_file.empty()) return what_.config_file;
    const fs::path config = folder_of(what_.path) / "config.json";
    return fs::exists(config) ? config : fs::path();
  }

  std::vector<fs::path> data_files() const override {
    std::vector<fs::path> paths;
    for (const auto& file : files_) paths.push_back(file->path);
    return paths;
  }
  std::vector<StoredProblem> damage() const override { return what_.problems; }
  fs::path file_of(const StoredTensor& tensor, size_t shard) const override {
    return place_in(places_, tensor.name, what_.path).at(shard).file->path;
  }

  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override {
    const std::vector<Piece>& pieces = place_in(places_, name, what_.path);
    if (torn_.contains(name)) {
      std::vector<mesh::Box> held;
      for (const Piece& piece : pieces) held.push_back(piece.box);
      require_held(held, box, name, what_.path);
    }
    for (const Piece& piece : pieces) {
      const auto common = mesh::intersect(piece.box, box);
      if (!common) continue;
      const int64_t element = formats::torch_dtype_size(piece.values.dtype);
      copy_box(piece.values.data, piece.values.strides, inside(piece.box, *common), element,
               out.part(inside(box, *common).offset, element));
      require_whole(piece.file->path, piece.file->map.bytes());
    }
  }

 private:
  struct File {
    explicit File(const fs::path& from)
        : path(from), map(from), archive(formats::TorchArchive::read(map.bytes(), from.string())) {
      for (const auto& global : archive.pickle().globals()) {
        if (global.alarming) refuse_alarm(path, global);
        if (global.name != "ShardedTensor" || !starts_with(global.module, kSharded)) continue;
        throw Error(
            ErrorKind::kFormat,
            cat(path.string(), ": the file has sharded tensors of FSDP1, which are not supported"),
            "save with torch.distributed.checkpoint.save instead (in accelerate: use_dcp=True)");
      }
    }

    fs::path path;
    MappedFile map;
    formats::TorchArchive archive;
  };
  struct Piece : TorchPiece {
    const File* file;
    int64_t rank;
    size_t entry;  // number of the stored tensor that the values belong to, counted over all files
  };

  // Opens a file. Throws if the file is damaged. With OnDamage::kReport and several files, records
  // the damage and returns null instead.
  const File* open(const TorchPart& part) {
    if (what_.damage == OnDamage::kRefuse || what_.parts.size() == 1) {
      return files_.emplace_back(std::make_unique<File>(part.path)).get();
    }
    try {
      return files_.emplace_back(std::make_unique<File>(part.path)).get();
    } catch (const Error& error) {
      what_.problems.push_back(
          file_problem(what_.path, part.path.lexically_relative(what_.path).string(), error));
      return nullptr;
    }
  }

  void list(const File& file, const TorchPart& part, std::vector<KeyPath>& paths,
            std::vector<Piece>& pieces) {
    if (part.holder == kStepItem && !what_.step) what_.step = file.archive.root().integer();
    const auto behind_holder = [&](KeyPath keys) {
      KeyPath path = part.holder;
      std::move(keys.begin(), keys.end(), std::back_inserter(path));
      return path;
    };
    TorchEntries entries = list_entries(file.archive, file.path.string());
    for (TorchEntry& entry : entries.values) {
      values_.emplace(join(behind_holder(std::move(entry.path)), "."), entry.value);
    }
    for (TorchEntry& entry : entries.tensors) {
      const KeyPath path = behind_holder(std::move(entry.path));
      ++entries_;
      const auto place = what_.place ? what_.place(path, part.rank) : std::nullopt;
      const std::string where = cat(file.path.string(), ": ", join(path, "."));
      TorchPieces held = read_pieces(file.archive, entry.value, place, where);
      ranks_ = std::max(ranks_, held.ranks);
      for (TorchPiece& piece : held.pieces) {
        pieces.push_back({std::move(piece), &file, part.rank, entries_});
        paths.push_back(path);
      }
    }
  }

  // Adds a problem for each rank whose file is missing; with OnDamage::kRefuse, throws Error(kIo)
  // instead. The size of the largest DTensor mesh is the number of ranks that wrote files.
  void find_missing() {
    if (!what_.rank_file) return;
    std::set<fs::path> there;
    for (const TorchPart& part : what_.parts) {
      if (part.path == what_.rank_file(part.rank)) there.insert(part.path);
    }
    if (static_cast<int64_t>(there.size()) >= ranks_) return;
    for (int64_t rank = 0; rank < std::min(ranks_, kMostMissing); ++rank) {
      const fs::path file = what_.rank_file(rank);
      if (there.contains(file)) continue;
      if (what_.damage == OnDamage::kRefuse) {
        throw Error(
            ErrorKind::kIo,
            cat(file.string(), ": the file is missing, but ", ranks_, " ranks wrote the folder"),
            "copy the folder again, with the files of all ranks");
      }
      what_.problems.push_back(
          {file.lexically_relative(what_.path).string(), "the file is missing"});
    }
  }

  // Adds a piece to the tensor that `key` names. Ignores a piece with the same box as an earlier
  // piece of the tensor, and a piece with an empty box if the tensor is not empty. Throws
  // Error(kFormat) if `piece` does not belong to the same tensor as the earlier pieces.
  void add(const StateKey& key, Piece piece) {
    std::vector<StoredTensor>& list = key.parameter ? tensors_ : optimizer_;
    const formats::Dtype dtype = formats::dtype_of_torch(piece.values.dtype);
    const auto [number, fresh] = numbers_.emplace(key.name, list.size());
    if (fresh) list.push_back({key.name, piece.shape, dtype, {}});
    StoredTensor& tensor = list[number->second];
    std::vector<Piece>& pieces = places_[key.name];
    const bool again = !fresh && !pieces.empty() && pieces.back().entry != piece.entry &&
                       (!what_.by_rank || pieces.back().rank == piece.rank);
    if (again) {
      throw Error(
          ErrorKind::kFormat,
          cat(what_.path.string(), ": two tensors are converted to the same name, ", key.name));
    }
    if (tensor.shape != piece.shape || tensor.dtype != dtype) {
      throw Error(ErrorKind::kFormat,
                  cat(what_.path.string(), ": ", key.name, " has a different shape or dtype in ",
                      piece.file->path.filename().string()),
                  "the files belong to several checkpoints; copy the folder again");
    }
    const auto copy = std::find_if(pieces.begin(), pieces.end(),
                                   [&](const Piece& other) { return other.box == piece.box; });
    const bool held = copy != pieces.end();
    if (held && key.parameter && ranks_ == 1) require_alike(key.name, *copy, piece);
    if (held || (piece.box.numel() == 0 && tensor.numel() != 0)) return;
    tensor.shards.push_back({piece.rank, piece.box});
    pieces.push_back(std::move(piece));
  }

  // Throws if the first or last 4096 bytes of the two pieces differ. The files "model_0.pt" and
  // "model_1.pt", for example, may be equal copies that two ranks wrote. But the files may also be
  // from two epochs of a run, and must then not be read as one model.
  void require_alike(const std::string& name, const Piece& first, const Piece& piece) const {
    constexpr size_t kEnd = 4096;
    const auto a = first.values.data, b = piece.values.data;
    if (first.values.strides != piece.values.strides || a.size() != b.size()) return;
    const size_t size = std::min(kEnd, a.size());
    const bool alike = std::ranges::equal(a.first(size), b.first(size)) &&
                       std::ranges::equal(a.last(size), b.last(size));
    if (alike) return;
    throw Error(ErrorKind::kFormat,
                cat(what_.path.string(), ": ", name, " differs between ",
                    first.file->path.filename().string(), " and ",
                    piece.file->path.filename().string(), ": the files hold different models"),
                "open one of them by its name");
  }

  void check_covered(const StoredTensor& tensor) {
    const auto problem = why_not_covered(tensor);
    if (!problem) return;
    // True if the caller opened the file of a single rank. The missing shards are then in other
    // files of the same folder.
    const bool lone = ranks_ > 1 && !fs::is_directory(what_.path);
    const std::string one = cat("this file has the shards of one of ", ranks_, " ranks");
    const std::string folder =
        cat("open its folder, ", folder_of(what_.path).string(), ", with the files of all ranks");
    if (what_.damage == OnDamage::kReport) {
      if (lone && torn_.empty()) {
        what_.problems.push_back({what_.path.filename().string(), cat(one, "; ", folder)});
      }
      what_.problems.push_back({tensor.name, *problem});
      torn_.insert(tensor.name);
      return;
    }
    throw Error(
        ErrorKind::kFormat,
        cat(what_.path.string(), ": ", lone ? cat(one, ": ") : "", tensor.name, ": ", *problem),
        lone ? folder : "files of ranks are missing, or the files belong to several checkpoints");
  }

  TorchFiles what_;
  int64_t ranks_ = 1;  // number of ranks of the largest DTensor mesh
  size_t entries_ = 0;
  std::vector<std::unique_ptr<File>> files_;  // the open files
  std::map<std::string, std::vector<Piece>, std::less<>> places_;
  // Index of each tensor in tensors_ or optimizer_, by name. Valid until the lists are sorted.
  std::map<std::string, size_t> numbers_;
  std::map<std::string, formats::PickleValue, std::less<>> values_;  // plain values, by name
  std::set<std::string, std::less<>> torn_;  // names of tensors whose shards overlap or leave a gap
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
};

// Names of accelerate's files for FSDP: one holds the model as full tensors, and one holds the
// optimizer states under parameter names.
constexpr const char* kGathered = "pytorch_model_fsdp.bin";
constexpr const char* kGatheredOptimizer = "optimizer.bin";
// Name patterns of files that trainers write beside the model's file and that contain no model.
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

// Returns the files that may contain a model, in a folder that has no file with a standard name.
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

std::unique_ptr<TensorSource> open_indexed(const fs::path& folder, OnDamage damage) {
  const fs::path path = folder / formats::kPytorchModelIndex;
  const WeightIndex index = read_weight_index(path);
  IndexedFiles files = indexed_files(path, index, damage);
  std::vector<TorchPart> parts;
  for (const fs::path& file : files.there) parts.push_back({file});
  if (parts.empty()) {
    throw Error(ErrorKind::kFormat, cat(path.string(), ": none of the files that it names exists"));
  }
  return open_torch_files({.path = folder,
                           .parts = std::move(parts),
                           .damage = damage,
                           .problems = std::move(files.problems)});
}

}  // namespace

bool is_torch_source(const fs::path& path) {
  if (!fs::is_directory(path)) return is_torch_file(path);
  return is_torch_file(path / formats::kPytorchModel) ||
         fs::is_regular_file(path / formats::kPytorchModelIndex) || !unnamed_models(path).empty();
}

std::unique_ptr<TensorSource> open_torch_files(TorchFiles files) {
  return std::make_unique<TorchSource>(std::move(files));
}

std::unique_ptr<TensorSource> open_torch_source(const fs::path& path, OnDamage damage) {
  std::vector<TorchPart> parts = {{path}};
  if (fs::is_directory(path)) {
    if (is_torch_file(path / formats::kPytorchModel)) {
      parts = {{path / formats::kPytorchModel}};
    } else if (fs::is_regular_file(path / formats::kPytorchModelIndex)) {
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
                        " files may hold the model: ", files[0].filename().string(), ", ",
                        files[1].filename().string(), files.size() > 2 ? ", .." : ""),
                    "open one of them by its name");
      }
      parts = {{files.at(0)}};
    }
  }
  for (const TorchPart& part : parts) {
    if (!is_tar(first_bytes(part.path))) continue;
    throw Error(
        ErrorKind::kFormat,
        cat(part.path.string(),
            ": this is a tar file of PyTorch before 2017, which is not supported"),
        "convert the file with torch.save(torch.load(FILE, weights_only=False), FILE), only if you "
        "trust it: loading may run code");
  }
  return open_torch_files({.path = path, .parts = std::move(parts), .damage = damage});
}

}  // namespace am::stored
