#include "am/checkpoint/rank_file.h"

#include <ATen/ATen.h>

#include <cstring>
#include <map>
#include <utility>

#include "am/base/crc32c.h"
#include "am/base/direct_file.h"
#include "am/base/error.h"
#include "am/checkpoint/block_buffer.h"
#include "am/formats/torch_slice.h"
#include "am/tensor/dtype.h"

namespace am::checkpoint {

namespace {

// Returns the values as a contiguous tensor in host memory. Copies the values only if necessary.
at::Tensor dense(const at::Tensor& value) { return value.detach().contiguous().cpu(); }

}  // namespace

RankFile::RankFile(const std::string& save_id, int64_t rank, std::vector<SavedBox> boxes,
                   std::vector<std::string> values)
    : name_(run_folder::data_file_name(rank)),
      label_(run_folder::data_file_label(save_id, rank)),
      values_(std::move(values)) {
  index_.save_id = save_id;
  bytes_ = label_.size();
  std::map<std::string_view, size_t> tensors;
  // For each entry of parts_: the index of its tensor in index_.tensors, and the index of its box
  // among the boxes of this tensor.
  std::vector<std::pair<size_t, size_t>> places;
  parts_.reserve(boxes.size());
  for (SavedBox& saved : boxes) {
    std::string dtype = tensor::dtype_name(saved.value.scalar_type());
    parts_.push_back({std::move(saved), std::move(dtype)});
    const SavedBox& box = parts_.back().saved;
    const auto [found, fresh] = tensors.emplace(box.name, index_.tensors.size());
    if (fresh) index_.tensors.push_back({box.name, parts_.back().dtype, box.shape, {}});
    auto& of_tensor = index_.tensors[found->second].boxes;
    const auto size = static_cast<uint64_t>(box.value.nbytes());
    const formats::SlicePlace slice =
        formats::place_slice(parts_.back().dtype, box.box.shape, bytes_);
    bytes_ = slice.end;
    run_folder::IndexedBox place;
    place.position = slice.position;
    place.slice_offset = slice.offset;
    place.slice_length = slice.length();
    place.box = box.box;
    place.checksums.resize((size + run_folder::kChecksumPiece - 1) / run_folder::kChecksumPiece);
    places.emplace_back(found->second, of_tensor.size());
    of_tensor.push_back(std::move(place));
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].place = &index_.tensors[places[i].first].boxes[places[i].second];
  }
  for (const std::string& value : values_) {
    value_slices_.push_back({0, bytes_, value.size()});
    bytes_ += value.size();
  }
  index_.files.push_back({name_, bytes_});
}

template <typename Text, typename Values>
void RankFile::walk(const Text& text, const Values& values) const {
  text(label_);
  for (const Part& part : parts_) {
    const formats::TorchSlice slice =
        formats::tensor_slice(part.dtype, part.saved.box.shape, part.place->slice_offset);
    text(slice.before);
    values(part);
    text(slice.after);
  }
  for (const std::string& value : values_) text(value);
}

void RankFile::write(const std::filesystem::path& folder) {
  DirectFile file(folder / name_, bytes_);
  walk([&](const std::string& text) { file.write(text); },
       [&](const Part& part) {
         AM_ASSERT(file.position() == part.place->position, "an unplanned file position");
         const at::Tensor value = dense(part.saved.values());
         auto* sum = part.place->checksums.data();
         for_each_piece(bytes_of(value), run_folder::kChecksumPiece,
                        [&](std::span<const std::byte> piece) {
                          *sum++ = crc32c(piece);
                          file.write(piece);
                        });
       });
  file.close();
}

void RankFile::stage(std::span<std::byte> memory, bool non_blocking) const {
  AM_ASSERT(memory.size() >= bytes_, "too little memory for a file");
  const at::NoGradGuard no_grad;
  size_t at = 0;
  walk(
      [&](const std::string& text) {
        std::memcpy(memory.data() + at, text.data(), text.size());
        at += text.size();
      },
      [&](const Part& part) {
        const at::Tensor value = part.saved.values();
        at::from_blob(memory.data() + at, value.sizes(), at::TensorOptions(value.scalar_type()))
            .copy_(value.detach(), non_blocking);
        at += value.nbytes();
      });
}

void RankFile::write_staged(const std::filesystem::path& folder,
                            std::span<const std::byte> memory) {
  for (const Part& part : parts_) {
    auto* sum = part.place->checksums.data();
    for_each_piece(memory.subspan(part.place->position, part.saved.value.nbytes()),
                   run_folder::kChecksumPiece,
                   [&](std::span<const std::byte> piece) { *sum++ = crc32c(piece); });
  }
  DirectFile file(folder / name_, bytes_);
  file.write(memory.first(bytes_));
  file.close();
}

}  // namespace am::checkpoint
