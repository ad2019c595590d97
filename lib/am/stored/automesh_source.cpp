#include "am/stored/automesh_source.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "am/base/crc32c.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/map_guard.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/formats/dcp_metadata.h"
#include "am/run_folder/data_files.h"
#include "am/stored/dcp_source.h"
#include "am/stored/rows.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

// Location of a shard's values in a data file, and their checksums.
struct Part {
  uint32_t file = 0;                // index of the file in the checkpoint's list of files
  uint64_t position = 0;            // offset of the first value in the file, in bytes
  std::vector<uint32_t> checksums;  // one per run_folder::kChecksumPiece bytes of values
};

// A checkpoint that am-run wrote. A block is the values that one checksum covers. read() verifies
// the checksum of each block at the first read of the block. Each call of verify() verifies all
// checksums.
class AutomeshSource : public TensorSource {
 public:
  // Reads the checkpoint's index. The index may list millions of boxes, so add_tensors() moves the
  // boxes out of the index instead of copying them.
  AutomeshSource(const fs::path& folder, OnDamage damage) : AutomeshSource(folder) {
    index_ = run_folder::read_index(folder_, info_);
    if (damage == OnDamage::kRefuse) run_folder::require_data_files(folder_, info_, index_);
    if (damage == OnDamage::kReport) damaged_ = run_folder::damaged_files(folder_, info_, index_);
    add_tensors();
  }
  AutomeshSource(const fs::path& folder, const WantedBoxes& wanted) : AutomeshSource(folder) {
    looks_when_read_ = true;
    std::optional<std::vector<mesh::Box>> boxes;  // wanted boxes of the current tensor
    const auto wants = [&](const std::string& name) {
      boxes = wanted(name);
      return !boxes || !boxes->empty();
    };
    const auto view = [&](run_folder::IndexedTensor& tensor) {
      keep_those(tensor, boxes.value_or(std::vector{mesh::Box::whole(tensor.shape)}));
    };
    index_ = run_folder::read_index(folder_, info_, {.wants = wants, .see = view});
    add_tensors();
  }

  std::string format() const override { return "automesh"; }
  fs::path path() const override { return folder_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<StoredProblem> damage() const override {
    std::vector<StoredProblem> problems;
    for (const auto& [file, error] : damaged_) {
      problems.push_back(file_problem(folder_, index_.files[file].name, error));
    }
    return problems;
  }
  fs::path config_file() const override {
    const fs::path config = folder_ / "config.json";
    return fs::exists(config) ? config : fs::path();
  }
  std::vector<fs::path> data_files() const override {
    std::vector<fs::path> paths;
    for (const run_folder::IndexedFile& file : index_.files) paths.push_back(folder_ / file.name);
    return paths;
  }
  fs::path file_of(const StoredTensor& tensor, size_t shard) const override {
    const auto number = static_cast<size_t>(tensor.shards[shard].rank);
    return folder_ / index_.files[number].name;
  }
  std::vector<uint32_t> checksums(const StoredTensor& tensor) const override {
    std::vector<uint32_t> all;
    for (const Part& part : place_in(places_, tensor.name, folder_).parts) {
      all.insert(all.end(), part.checksums.begin(), part.checksums.end());
    }
    return all;
  }
  void verify(const VerifyCalls& calls) const override;

  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override {
    const Place& place = place_in(places_, name, folder_);
    const int64_t element = formats::dtype_size(place.tensor->dtype);
    int64_t missing = box.numel();
    for (size_t i = 0; i < place.parts.size(); ++i) {
      const mesh::Box& own = place.tensor->shards[i].box;
      const auto common = mesh::intersect(own, box);
      if (!common) continue;
      missing -= common->numel();
      const auto values = values_of(place, i);
      verify(*place.tensor, place.parts[i], own, values, *common);
      copy_box(values, dense_strides(own.shape), inside(own, *common), element,
               out.part(inside(box, *common).offset, element));
      require_whole(path_of(place.parts[i]), file_of(place.parts[i].file).bytes());
    }
    AM_ASSERT(missing == 0, cat(name, ": read() was called for a box outside of the wanted boxes"));
  }
  void prefetch(std::string_view name, const mesh::Box& box) const override {
    const Place& place = place_in(places_, name, folder_);
    for (size_t i = 0; i < place.parts.size(); ++i) {
      const mesh::Box& own = place.tensor->shards[i].box;
      if (auto common = mesh::intersect(own, box))
        populate(own_rows(values_of(place, i), own, *common));
    }
  }

 private:
  // Stored parts of a tensor, in the order of its shards.
  struct Place {
    const StoredTensor* tensor = nullptr;
    std::vector<Part> parts;
  };

  explicit AutomeshSource(const fs::path& folder)
      : folder_(folder), info_(run_folder::read_checkpoint_info(folder)) {}

  // Removes from the index entry `tensor` the boxes that intersect none of the `wanted` boxes.
  // Throws Error(kFormat) if the remaining boxes do not cover each wanted box exactly once. Wanted
  // boxes that do not fit the tensor's shape are ignored here, because the source's caller compares
  // shapes.
  void keep_those(run_folder::IndexedTensor& tensor, std::vector<mesh::Box> wanted) const {
    const mesh::Box whole = mesh::Box::whole(tensor.shape);
    std::erase_if(wanted, [&](const mesh::Box& box) {
      return box.shape.size() != tensor.shape.size() || mesh::intersect(whole, box) != box;
    });
    std::erase_if(tensor.boxes, [&](const run_folder::IndexedBox& each) {
      return std::none_of(wanted.begin(), wanted.end(), [&](const mesh::Box& box) {
        return mesh::intersect(each.box, box).has_value();
      });
    });
    tensor.boxes.shrink_to_fit();
    std::vector<mesh::Box> parts;
    for (const run_folder::IndexedBox& each : tensor.boxes) parts.push_back(each.box);
    for (const mesh::Box& box : wanted) require_held(parts, box, tensor.name, folder_);
  }

  void add_tensors() {
    mapped_.resize(index_.files.size());
    for (run_folder::IndexedTensor& from : index_.tensors) add(std::exchange(from, {}));
    for (const auto* list : {&tensors_, &optimizer_}) {
      for (const StoredTensor& tensor : *list) places_.find(tensor.name)->second.tensor = &tensor;
    }
  }

  void add(run_folder::IndexedTensor from) {
    StoredTensor tensor{from.name, from.shape, formats::dtype_of_torch(from.dtype), {}};
    std::vector<Part>& parts = places_[from.name].parts;
    tensor.shards.reserve(from.boxes.size());
    parts.reserve(from.boxes.size());
    for (run_folder::IndexedBox& part : from.boxes) {
      tensor.shards.push_back({part.file, std::move(part.box)});
      parts.push_back({part.file, part.position, std::move(part.checksums)});
    }
    if (!looks_when_read_) require_covered(tensor, folder_);
    auto& list = starts_with(from.name, run_folder::kOptimizerPrefix) ? optimizer_ : tensors_;
    list.push_back(std::move(tensor));
  }

  fs::path path_of(const Part& part) const { return folder_ / index_.files[part.file].name; }

  std::span<const std::byte> values_of(const Place& place, size_t i) const {
    const int64_t element = formats::dtype_size(place.tensor->dtype);
    const auto bytes = static_cast<size_t>(place.tensor->shards[i].box.numel() * element);
    const Part& part = place.parts[i];
    const std::span<const std::byte> all = file_of(part.file).bytes();
    if (part.position > all.size() || bytes > all.size() - part.position) {
      throw Error(ErrorKind::kFormat,
                  cat(path_of(part).string(), ": ", place.tensor->name, ": its values end at byte ",
                      part.position + bytes, ", but the file has only ", all.size(), " bytes"),
                  "the file was cut off; copy it again");
    }
    return all.subspan(part.position, bytes);
  }

  void verify(const StoredTensor& tensor, const VerifyCalls& calls) const;
  // Verifies the checksums of the blocks that contain rows of the box `common`. Skips blocks that
  // this function has verified before. If another thread is verifying one of the blocks, waits
  // until that thread has finished the block.
  void verify(const StoredTensor& tensor, const Part& part, const mesh::Box& own,
              std::span<const std::byte> values, const mesh::Box& common) const {
    const auto rows = own_rows(values, own, common);
    const auto first = static_cast<size_t>(rows.data() - values.data());
    const size_t piece = run_folder::kChecksumPiece;
    for (size_t i = first / piece; i * piece < first + rows.size(); ++i) {
      const auto taken = values.subspan(i * piece, std::min(piece, values.size() - i * piece));
      const std::pair<const Part*, size_t> key(&part, i);
      std::unique_lock lock(mutex_);
      looked_.wait(lock, [&] { return !looked_at_.contains(key); });
      if (verified_.contains(key)) continue;
      looked_at_.emplace(key);
      lock.unlock();
      const auto end = [&](bool same) {
        lock.lock();
        looked_at_.erase(key);
        if (same) verified_.emplace(key);
        looked_.notify_all();
      };
      try {
        require_checksum(tensor, part, i, taken);
      } catch (...) {
        end(false);
        throw;
      }
      end(true);
    }
  }

  void require_checksum(const StoredTensor& tensor, const Part& part, size_t piece,
                        std::span<const std::byte> taken) const {
    const bool same = crc32c(taken) == part.checksums[piece];
    const fs::path path = path_of(part);
    require_whole(path, file_of(part.file).bytes());
    if (same) return;
    const size_t first = part.position + piece * run_folder::kChecksumPiece;
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": ", tensor.name, ": the bytes from ", first, " to ",
                    first + taken.size(),
                    " have changed since they were written: the checksum does not match"),
                "the disk or a copy has damaged the file; take another copy, or the "
                "checkpoint before it");
  }

  // Returns a data file. The first call for a file maps it; listing tensors needs only the index.
  const MappedFile& file_of(size_t number) const {
    const std::lock_guard lock(mutex_);
    auto& file = mapped_[number];
    if (!file) {
      const fs::path path = folder_ / index_.files[number].name;
      file = std::make_shared<MappedFile>(path);
      const std::span<const std::byte> bytes = file->bytes();
      try {
        if (looks_when_read_) {
          run_folder::require_data_file(folder_, info_, index_, number,
                                        {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                        bytes.size());
        } else if (bytes.size() != index_.files[number].bytes && !damaged_.contains(number)) {
          throw Error(ErrorKind::kFormat,
                      cat(path.string(), ": it has changed since the folder was opened"));
        }
      } catch (...) {
        file.reset();
        throw;
      }
    }
    return *file;
  }

  fs::path folder_;
  run_folder::CheckpointInfo info_;
  run_folder::ShardIndex index_;     // without tensors: add_tensors() moves them out
  bool looks_when_read_ = false;     // whether each file's label and size are checked when mapped
  std::map<size_t, Error> damaged_;  // errors of damaged files, by index in index_.files
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
  std::map<std::string, Place, std::less<>> places_;  // stored parts of each tensor, by name
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const MappedFile>> mapped_;
  mutable std::set<std::pair<const Part*, size_t>> verified_, looked_at_;
  mutable std::condition_variable looked_;
};

void AutomeshSource::verify(const StoredTensor& tensor, const VerifyCalls& calls) const {
  const Place& place = places_.find(tensor.name)->second;
  for (size_t at = 0; at < place.parts.size(); ++at) {
    for (size_t i = 0; i < place.parts[at].checksums.size(); ++i) {
      if (calls.between) calls.between();
      try {
        const auto values = values_of(place, at);
        const size_t first = i * run_folder::kChecksumPiece;
        const size_t size = std::min<size_t>(run_folder::kChecksumPiece, values.size() - first);
        if (calls.saw) calls.saw(static_cast<int64_t>(size));
        require_checksum(tensor, place.parts[at], i, values.subspan(first, size));
      } catch (const Error& error) {
        calls.found(as_problem(*this, tensor.name, error));
      }
    }
  }
}

void AutomeshSource::verify(const VerifyCalls& calls) const {
  bool files_are_whole = true;
  try {  // checks sizes and labels again, because files may have changed since they were opened
    const auto info = run_folder::read_checkpoint_info(folder_);
    const auto index = run_folder::read_index(folder_, info);
    for (const auto& [file, error] : run_folder::damaged_files(folder_, info, index)) {
      calls.found(file_problem(folder_, index.files[file].name, error));
      files_are_whole = false;
    }
  } catch (const Error& error) {
    calls.found(as_problem(*this, run_folder::kInfoFile, error));
  }
  for (const auto* list : {&tensors_, &optimizer_}) {
    for (const StoredTensor& tensor : *list) verify(tensor, calls);
  }
  if (files_are_whole && fs::exists(folder_ / formats::kDcpMetadataFile))
    verify_dcp_slices(folder_, calls);
}

}  // namespace

std::unique_ptr<TensorSource> open_automesh_source(const fs::path& folder, OnDamage damage) {
  return std::make_unique<AutomeshSource>(folder, damage);
}

std::unique_ptr<TensorSource> open_automesh_part(const fs::path& folder,
                                                 const WantedBoxes& wanted) {
  return std::make_unique<AutomeshSource>(folder, wanted);
}

}  // namespace am::stored
