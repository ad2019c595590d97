#include "am/checkpoint/automesh_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "am/base/crc32c.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/checkpoint/dcp_source.h"
#include "am/checkpoint/mapped_tensor.h"
#include "am/formats/dcp_metadata.h"
#include "am/run_folder/data_files.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

// What `read` compares once, verify() compares again.
class AutomeshSource : public TensorSource {
 public:
  explicit AutomeshSource(fs::path folder)
      : folder_(std::move(folder)),
        index_(run_folder::open_index(folder_, run_folder::read_checkpoint_info(folder_))),
        files_(index_.files.size()) {
    for (const run_folder::IndexedTensor& from : index_.tensors) add(from);
  }

  std::string format() const override { return "automesh"; }
  fs::path path() const override { return folder_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  fs::path config_file() const override { return folder_ / "config.json"; }
  std::vector<fs::path> data_files() const override {
    std::vector<fs::path> paths;
    for (const run_folder::IndexedFile& file : index_.files) paths.push_back(folder_ / file.name);
    return paths;
  }
  fs::path file_of(const StoredTensor& tensor, size_t shard) const override {
    const auto number = static_cast<size_t>(tensor.shards[shard].rank);
    return folder_ / index_.files[number].name;
  }
  void verify(const VerifyCalls& calls) const override;

  void read(std::string_view name, const mesh::Box& box, at::Tensor out) const override {
    const run_folder::IndexedTensor& tensor = *place_in(places_, name, folder_);
    const at::NoGradGuard no_grad;
    for (const run_folder::IndexedBox& part : tensor.boxes) {
      const auto common = mesh::intersect(part.box, box);
      if (!common) continue;
      const at::Tensor stored = map(tensor, part, *common);
      tensor::view_box(out, box.offset, *common)
          .copy_(tensor::view_box(stored, part.box.offset, *common));
      require_whole(folder_ / index_.files[part.file].name, file_of(part.file).bytes());
    }
  }

 private:
  void add(const run_folder::IndexedTensor& from) {
    places_.emplace(from.name, &from);
    StoredTensor tensor{from.name, from.shape, tensor::from_torch(from.dtype), {}};
    tensor.shards.reserve(from.boxes.size());
    for (const run_folder::IndexedBox& part : from.boxes) {
      tensor.shards.push_back({part.file, part.box});
    }
    require_covered(tensor, folder_);
    auto& list = starts_with(from.name, run_folder::kOptimizerPrefix) ? optimizer_ : tensors_;
    list.push_back(std::move(tensor));
  }

  // A view of the part's values, of which those of `common` were compared with their checksums.
  at::Tensor map(const run_folder::IndexedTensor& tensor, const run_folder::IndexedBox& part,
                 const mesh::Box& common) const {
    const auto bytes = static_cast<size_t>(part.box.numel() * tensor.element_bytes());
    const auto values = file_of(part.file).bytes().subspan(part.position, bytes);
    verify(tensor, part, values, common);
    return map_values(values, part.box.shape, tensor::from_torch(tensor.dtype), files_[part.file]);
  }

  // Each piece once, and only those that hold rows of `common`.
  void verify(const run_folder::IndexedTensor& tensor, const run_folder::IndexedBox& part,
              std::span<const std::byte> values, const mesh::Box& common) const {
    size_t first = 0;
    size_t last = values.size();
    if (!part.box.shape.empty()) {
      const size_t row = values.size() / static_cast<size_t>(part.box.shape[0]);
      first = static_cast<size_t>(common.offset[0] - part.box.offset[0]) * row;
      last = first + static_cast<size_t>(common.shape[0]) * row;
    }
    const size_t piece = run_folder::kChecksumPiece;
    for (size_t i = first / piece; i * piece < last; ++i) {
      const auto taken = values.subspan(i * piece, std::min(piece, values.size() - i * piece));
      const std::pair<const run_folder::IndexedBox*, size_t> key(&part, i);
      {
        const std::lock_guard lock(mutex_);
        if (verified_.contains(key)) continue;
      }
      require_checksum(tensor, part, i, taken);
      const std::lock_guard lock(mutex_);
      verified_.emplace(key);
    }
  }

  void require_checksum(const run_folder::IndexedTensor& tensor, const run_folder::IndexedBox& part,
                        size_t piece, std::span<const std::byte> taken) const {
    const bool same = crc32c(taken) == part.checksums[piece];
    const fs::path path = folder_ / index_.files[part.file].name;
    require_whole(path, file_of(part.file).bytes());
    if (same) return;
    const size_t first = part.position + piece * run_folder::kChecksumPiece;
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": ", tensor.name, ": the bytes from ", first, " to ",
                    first + taken.size(),
                    " have changed since they were written: their checksum is another"),
                "the disk or a copy has damaged the file; take another copy, or the "
                "checkpoint before it");
  }

  // Mapped when it is first read: to list names takes the index alone.
  const MappedFile& file_of(size_t number) const {
    const std::lock_guard lock(mutex_);
    auto& file = files_[number];
    if (!file) {
      file = std::make_shared<MappedFile>(folder_ / index_.files[number].name);
      if (file->bytes().size() != index_.files[number].bytes) {
        throw Error(ErrorKind::kFormat, cat((folder_ / index_.files[number].name).string(),
                                            ": it has changed since the folder was opened"));
      }
    }
    return *file;
  }

  fs::path folder_;
  run_folder::ShardIndex index_;
  std::map<std::string, const run_folder::IndexedTensor*, std::less<>> places_;
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const MappedFile>> files_;
  mutable std::set<std::pair<const run_folder::IndexedBox*, size_t>> verified_;
};

void AutomeshSource::verify(const VerifyCalls& calls) const {
  try {  // sizes and labels of the files, which may have changed since it was opened
    run_folder::open_index(folder_, run_folder::read_checkpoint_info(folder_));
  } catch (const Error& error) {
    calls.found(as_problem(*this, run_folder::kInfoFile, error));
  }
  for (const run_folder::IndexedTensor& tensor : index_.tensors) {
    for (const run_folder::IndexedBox& part : tensor.boxes) {
      const auto bytes = static_cast<size_t>(part.box.numel() * tensor.element_bytes());
      for (size_t i = 0; i < part.checksums.size(); ++i) {
        if (calls.between) calls.between();
        const size_t first = i * run_folder::kChecksumPiece;
        const size_t size = std::min<size_t>(run_folder::kChecksumPiece, bytes - first);
        try {
          require_checksum(tensor, part, i,
                           file_of(part.file).bytes().subspan(part.position + first, size));
        } catch (const Error& error) {
          calls.found(as_problem(*this, tensor.name, error));
        }
      }
    }
  }
  if (fs::exists(folder_ / formats::kDcpMetadataFile)) verify_dcp_slices(folder_, calls);
}

}  // namespace

std::unique_ptr<TensorSource> open_automesh_source(const fs::path& folder) {
  return std::make_unique<AutomeshSource>(folder);
}

}  // namespace am::checkpoint
