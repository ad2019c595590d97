#include "am/stored/dcp_source.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/map_guard.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/formats/dcp_metadata.h"
#include "am/formats/torch_archive.h"
#include "am/stored/rows.h"
#include "am/stored/state_keys.h"
#include "am/stored/strided_copy.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

// Names of values that contain the number of the last training step: torchtitan's and Megatron's.
constexpr std::array<std::string_view, 2> kSteps = {"train_state.step", "iteration"};

// Returns the rank that wrote a file, for example 3 for "__3_0.distcp"; 0 for other names.
int64_t rank_of_file(std::string_view name) {
  int64_t rank = 0;
  for (size_t i = 2; i < name.size() && i < 12 && name[i] >= '0' && name[i] <= '9'; ++i) {
    rank = 10 * rank + (name[i] - '0');
  }
  return starts_with(name, "__") ? rank : 0;
}

class DcpSource : public TensorSource {
 public:
  DcpSource(fs::path folder, formats::DcpMetadata metadata, std::vector<StoredProblem> known)
      : folder_(std::move(folder)),
        metadata_(std::move(metadata)),
        known_(std::move(known)),
        files_(metadata_.files.size()) {
    if (!metadata_.alarms.empty()) {
      refuse_alarm(folder_ / formats::kDcpMetadataFile, metadata_.alarms.front());
    }
    std::vector<KeyPath> paths;
    paths.reserve(metadata_.tensors.size());
    for (const formats::DcpTensor& tensor : metadata_.tensors) paths.push_back(path_of(tensor));
    std::vector<StateKey> keys = name_state(paths);
    for (size_t i = 0; i < keys.size(); ++i) add(metadata_.tensors[i], std::move(keys[i]));
    for (const formats::DcpValue& value : metadata_.values) values_.emplace(value.name, &value);
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    for (auto* list : {&tensors_, &optimizer_}) {
      std::sort(list->begin(), list->end(), by_name);
      for (const StoredTensor& tensor : *list) places_.find(tensor.name)->second.tensor = &tensor;
    }
  }

  std::string format() const override { return "dcp"; }
  fs::path path() const override { return folder_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override {
    std::vector<std::string> names;
    for (const formats::DcpValue& value : metadata_.values) names.push_back(value.name);
    return names;
  }
  bool visit_value(std::string_view name, const VisitValue& view) const override {
    const auto found = values_.find(name);
    if (found == values_.end()) return false;
    view(archive_of(found->second->slice, found->second->name).root());
    return true;
  }
  std::optional<int64_t> step() const override {
    for (const formats::DcpValue& value : metadata_.values) {
      if (std::find(kSteps.begin(), kSteps.end(), value.name) == kSteps.end()) continue;
      return archive_of(value.slice, value.name).root().integer();
    }
    return std::nullopt;
  }
  fs::path config_file() const override {
    const fs::path config = folder_ / "config.json";
    return fs::exists(config) ? config : fs::path();
  }

  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override {
    const Place& place = place_in(places_, name, folder_);
    const int64_t element = formats::dtype_size(place.tensor->dtype);
    for (size_t i = 0; i < place.tensor->shards.size(); ++i) {
      const auto common = mesh::intersect(place.tensor->shards[i].box, box);
      if (!common) continue;
      read_chunk(place, i, *common, out.part(inside(box, *common).offset, element));
    }
  }
  // Does not parse the torch.save archive that contains the values. Assumes instead that the values
  // are dense and fill the end of the archive. If the values are elsewhere, prefetch() loads some
  // pages in vain.
  void prefetch(std::string_view name, const mesh::Box& box) const override {
    const Place& place = place_in(places_, name, folder_);
    const int64_t element = formats::dtype_size(place.tensor->dtype);
    for (size_t i = 0; i < place.tensor->shards.size(); ++i) {
      const mesh::Box& own = place.tensor->shards[i].box;
      const auto common = mesh::intersect(own, box);
      const auto size = static_cast<size_t>(own.numel() * element);
      const formats::DcpSlice& slice = place.slice(i);
      const auto bytes = file_of(slice.file).bytes();
      if (!common || slice.length < size || slice.offset > bytes.size() ||
          slice.length > bytes.size() - slice.offset) {
        continue;
      }
      populate(own_rows(bytes.subspan(slice.offset + slice.length - size, size), own, *common));
    }
  }

  std::vector<fs::path> data_files() const override {
    std::vector<fs::path> paths;
    for (const std::string& file : metadata_.files) paths.push_back(folder_ / file);
    return paths;
  }
  std::vector<StoredProblem> damage() const override;
  fs::path file_of(const StoredTensor& tensor, size_t shard) const override {
    return path_of(place_in(places_, tensor.name, folder_).slice(shard));
  }
  void verify(const VerifyCalls& calls) const override {
    TensorSource::verify(calls);
    verify_values(calls);
  }
  void verify_slices(const VerifyCalls& calls) const {
    for (const auto* list : {&tensors_, &optimizer_}) {
      for (const StoredTensor& tensor : *list) {
        const Place& place = places_.find(tensor.name)->second;
        for (size_t i = 0; i < tensor.shards.size(); ++i) {
          look(calls, place.stored->name, [&] { require_as_said(place, i, archive_of(place, i)); });
        }
      }
    }
    verify_values(calls);
  }

 private:
  // A tensor's description in `.metadata`, and in this source.
  struct Place {
    // The tensor in `.metadata`. Its chunks contain the shards' locations in the data files.
    const formats::DcpTensor* stored = nullptr;
    // The tensor in this source. It contains the shards' boxes, which add() moved out of `stored`.
    const StoredTensor* tensor = nullptr;

    const formats::DcpSlice& slice(size_t i) const { return stored->chunks[i].slice; }
  };

  // Returns the keys under which the tensor was saved; its flat name if `.metadata` lists fewer
  // than two keys.
  static KeyPath path_of(const formats::DcpTensor& tensor) {
    if (tensor.path.size() < 2) return {tensor.name};
    KeyPath path;
    for (const auto& key : tensor.path) {
      const auto* text = std::get_if<std::string>(&key);
      path.push_back(text != nullptr ? *text : std::to_string(std::get<int64_t>(key)));
    }
    return path;
  }

  void add(formats::DcpTensor& from, StateKey key) {
    if (!places_.emplace(key.name, Place{&from}).second) {
      throw Error(
          ErrorKind::kFormat,
          cat(folder_.string(), ": two tensors are converted to the same name, ", key.name));
    }
    StoredTensor tensor{std::move(key.name), from.shape, formats::dtype_of_torch(from.dtype), {}};
    tensor.shards.reserve(from.chunks.size());
    for (formats::DcpChunk& chunk : from.chunks) {
      tensor.shards.push_back({rank_of_file(metadata_.files[chunk.slice.file]),
                               {std::move(chunk.offset), std::move(chunk.shape)}});
    }
    require_covered(tensor, folder_);
    (key.parameter ? tensors_ : optimizer_).push_back(std::move(tensor));
  }

  fs::path path_of(const formats::DcpSlice& slice) const {
    return folder_ / metadata_.files[slice.file];
  }
  std::string place_of(const formats::DcpSlice& slice, const std::string& name) const {
    return cat(path_of(slice).string(), ": ", name, ", ", slice.length, " bytes at ", slice.offset);
  }
  formats::TorchArchive archive_of(const formats::DcpSlice& slice, const std::string& name) const {
    const auto bytes = file_of(slice.file).bytes();
    const std::string where = place_of(slice, name);
    if (slice.offset > bytes.size() || slice.length > bytes.size() - slice.offset) {
      throw Error(ErrorKind::kFormat, cat(where, ": the file has only ", bytes.size(), " bytes"),
                  "the file was cut off; fetch it again");
    }
    return formats::TorchArchive::read(bytes.subspan(slice.offset, slice.length), where);
  }

  // Copies the box `common`, given in the tensor's coordinates, from shard `i` to `out`. Throws
  // Error(kFormat) if the shard's dtype or shape differs from `.metadata`.
  void read_chunk(const Place& place, size_t i, const mesh::Box& common,
                  const Destination& out) const {
    const auto archive = archive_of(place, i);
    const formats::TorchTensor stored = require_as_said(place, i, archive);
    const mesh::Box own = inside(place.tensor->shards[i].box, common);
    copy_box(stored.data, stored.strides, own, formats::dtype_size(place.tensor->dtype), out);
    require_whole(path_of(place.slice(i)), file_of(place.slice(i).file).bytes());
  }
  formats::TorchArchive archive_of(const Place& place, size_t i) const {
    return archive_of(place.slice(i), place.stored->name);
  }

  // Returns the tensor in `archive`, the archive of shard `i`, without copying values. Throws
  // Error(kFormat) if the archive contains no tensor, or a tensor whose dtype or shape differs from
  // `.metadata`.
  formats::TorchTensor require_as_said(const Place& place, size_t i,
                                       const formats::TorchArchive& archive) const {
    const auto stored = archive.tensor(archive.root());
    const Shape& shape = place.tensor->shards[i].box.shape;
    if (!stored || stored->dtype != place.stored->dtype || stored->shape != shape) {
      throw Error(ErrorKind::kFormat,
                  cat(place_of(place.slice(i), place.stored->name),
                      ": the file does not hold the tensor ", shape_text(shape), " of ",
                      place.stored->dtype, " that ", formats::kDcpMetadataFile, " lists"),
                  "the folder mixes files of two checkpoints; save the checkpoint again");
    }
    return *stored;
  }

  void verify_values(const VerifyCalls& calls) const {
    for (const formats::DcpValue& value : metadata_.values) {
      look(calls, value.name, [&] { archive_of(value.slice, value.name); });
    }
  }
  template <typename Look>
  void look(const VerifyCalls& calls, const std::string& name, const Look& look) const {
    if (calls.between) calls.between();
    try {
      look();
    } catch (const Error& error) {
      calls.found(as_problem(*this, name, error));
    }
  }

  // Returns a data file. The first call for a file maps it; listing tensors needs only `.metadata`.
  const MappedFile& file_of(size_t index) const {
    const std::lock_guard lock(mutex_);
    auto& file = files_[index];
    if (!file) file.emplace(folder_ / metadata_.files[index]);
    return *file;
  }

  fs::path folder_;
  formats::DcpMetadata metadata_;
  std::vector<StoredProblem> known_;
  mutable std::mutex mutex_;
  mutable std::vector<std::optional<MappedFile>> files_;
  std::map<std::string, Place, std::less<>> places_;  // where each tensor is stored, by name
  std::map<std::string_view, const formats::DcpValue*> values_;  // by name
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
};

std::vector<StoredProblem> DcpSource::damage() const {
  std::vector<uint64_t> ends(metadata_.files.size());
  const auto reach = [&](const formats::DcpSlice& slice) {
    ends[slice.file] = std::max(ends[slice.file], slice.offset + slice.length);
  };
  for (const formats::DcpTensor& tensor : metadata_.tensors) {
    for (const formats::DcpChunk& chunk : tensor.chunks) reach(chunk.slice);
  }
  for (const formats::DcpValue& value : metadata_.values) reach(value.slice);
  std::vector<StoredProblem> problems = known_;
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string& name = metadata_.files[i];
    std::error_code failed;
    const uint64_t size = fs::file_size(folder_ / name, failed);
    if (failed) {
      problems.push_back({name, cat("cannot read: ", failed.message())});
    } else if (size < ends[i]) {
      problems.push_back({name, cat("it has ", size, " bytes, but its last part ends at byte ",
                                    ends[i], ": it was cut off")});
    }
  }
  return problems;
}

}  // namespace

bool is_dcp_source(const fs::path& path) {
  return fs::is_directory(path) && fs::is_regular_file(path / formats::kDcpMetadataFile);
}

std::unique_ptr<TensorSource> open_dcp_source(const fs::path& folder,
                                              std::vector<StoredProblem> known) {
  return std::make_unique<DcpSource>(
      folder, formats::read_dcp_metadata(folder / formats::kDcpMetadataFile), std::move(known));
}

std::unique_ptr<TensorSource> open_dcp_source(const fs::path& folder,
                                              formats::DcpMetadata metadata) {
  return std::make_unique<DcpSource>(folder, std::move(metadata), std::vector<StoredProblem>());
}

void verify_dcp_slices(const fs::path& folder, const VerifyCalls& calls) {
  try {
    DcpSource(folder, formats::read_dcp_metadata(folder / formats::kDcpMetadataFile), {})
        .verify_slices(calls);
  } catch (const Error& error) {  // `.metadata` cannot be read, or is invalid
    calls.found({formats::kDcpMetadataFile, error.what()});
  }
}

}  // namespace am::stored
