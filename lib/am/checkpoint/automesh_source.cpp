#include "am/checkpoint/automesh_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/mapped_tensor.h"
#include "am/run_folder/rank_files.h"
#include "am/run_folder/shard_table.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

class AutomeshSource : public TensorSource {
 public:
  explicit AutomeshSource(fs::path folder) : folder_(std::move(folder)) {
    const run_folder::CheckpointInfo info = run_folder::read_checkpoint_info(folder_);
    files_ = run_folder::open_rank_files(folder_, info);
    for (int64_t rank = 0; rank < info.world_size; ++rank) add_file(rank);
    places_.clear();
    for (const auto* list : {&tensors_, &optimizer_}) {
      for (const StoredTensor& tensor : *list) require_covered(tensor, folder_);
    }
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(tensors_.begin(), tensors_.end(), by_name);
    std::sort(optimizer_.begin(), optimizer_.end(), by_name);
  }

  std::string format() const override { return "automesh"; }
  fs::path path() const override { return folder_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  fs::path config_file() const override { return folder_ / "config.json"; }

  void read(std::string_view name, const mesh::Box& box, at::Tensor out) const override {
    const auto found = parts_.find(name);
    if (found == parts_.end()) {
      throw Error(ErrorKind::kFormat, cat(folder_.string(), ": no tensor named ", name));
    }
    const at::NoGradGuard no_grad;
    for (const Part& part : found->second) {
      const auto common = mesh::intersect(part.box, box);
      if (!common) continue;
      const at::Tensor stored = map_entry(*part.file, *part.entry);
      tensor::view_box(out, box.offset, *common)
          .copy_(tensor::view_box(stored, part.box.offset, *common));
      part.file->require_whole();
    }
  }

 private:
  struct Part {
    const formats::SafetensorsFile* file;
    const formats::SafetensorsEntry* entry;
    Shape shape;  // global
    mesh::Box box;
  };

  void add_file(int64_t rank) {
    const auto& file = files_[static_cast<size_t>(rank)];
    const run_folder::ShardTable table = run_folder::read_shard_table(file);
    for (const auto& entry : file.entries()) {
      const auto& row = table.at(entry.name);
      const std::string& name = row.of.empty() ? entry.name : row.of;
      auto& list = starts_with(name, run_folder::kOptimizerPrefix) ? optimizer_ : tensors_;
      const auto [place, fresh] = places_.emplace(name, list.size());
      if (fresh) list.push_back({name, row.shape, tensor::from_safetensors(entry.dtype), {}});
      auto& parts = parts_[name];
      if (!fresh && parts.front().shape != row.shape) {
        throw Error(ErrorKind::kFormat, cat(file.path().string(), ": ", entry.name,
                                            " has another global shape than in the other ranks"));
      }
      parts.push_back({&file, &entry, row.shape, {row.offset, entry.shape}});
      list[place->second].shards.push_back({rank, parts.back().box});
    }
  }

  fs::path folder_;
  std::vector<formats::SafetensorsFile> files_;
  std::map<std::string, std::vector<Part>, std::less<>> parts_;
  std::map<std::string, size_t, std::less<>>
      places_;  // in the list that it is in; while files are read
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> optimizer_;
};

}  // namespace

std::unique_ptr<TensorSource> open_automesh_source(const fs::path& folder) {
  return std::make_unique<AutomeshSource>(folder);
}

}  // namespace am::checkpoint
