// Tests a rank's data file, which is written from the tensors or from a copy of the tensors: each
// box is stored as a torch.save archive, at the place that the file's index states.
#include "am/checkpoint/rank_file.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/crc32c.h"
#include "am/base/direct_file.h"
#include "am/base/file.h"
#include "am/formats/torch_archive.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

// Returns boxes of four tensors: two boxes of "a", the first of which is a transposed view; a part
// of "b"; the number "n"; and "large", which is larger than one checksum block.
std::vector<SavedBox> some_boxes() {
  at::manual_seed(1);
  const at::Tensor wide = at::randn({6, 4});
  return {{"a", {4, 12}, {{0, 6}, {4, 6}}, wide.t()},
          {"b", {5}, {{0}, {2}}, at::arange(2, at::kBFloat16)},
          {"a", {4, 12}, {{0, 0}, {4, 2}}, at::ones({4, 2})},
          {"n", {}, {{}, {}}, at::tensor(7.0F)},
          {"large", {2'300, 2'000}, {{0, 0}, {2'300, 2'000}}, at::randn({2'300, 2'000})}};
}

}  // namespace

TEST_CASE("a rank's file holds archives of its boxes, where its index says") {
  const TemporaryFolder folder;
  const std::vector<SavedBox> boxes = some_boxes();
  RankFile file("id", 3, boxes, {"first", "second value"});
  file.write(folder.path());
  CHECK(file.name() == "__3_0.distcp");
  const std::string bytes = read_file(folder / file.name());
  CHECK(bytes.size() == file.bytes());
  CHECK(run_folder::label_of(bytes) == run_folder::data_file_label("id", 3));
  CHECK(bytes.substr(file.value_slices()[1].offset, file.value_slices()[1].length) ==
        "second value");
  const run_folder::ShardIndex& index = file.index();
  REQUIRE(index.tensors.size() == 4);
  REQUIRE(index.tensors[0].boxes.size() == 2);
  CHECK(index.tensors[3].boxes[0].checksums.size() == 2);
  size_t seen = 0;
  for (const auto& tensor : index.tensors) {
    for (const auto& place : tensor.boxes) {
      const auto of = std::find_if(boxes.begin(), boxes.end(), [&](const SavedBox& box) {
        return box.name == tensor.name && box.box == place.box;
      });
      REQUIRE(of != boxes.end());
      const at::Tensor value = of->value.contiguous();
      CHECK(place.position % 4096 == 0);
      CHECK(std::memcmp(bytes.data() + place.position, value.data_ptr(), value.nbytes()) == 0);
      const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(bytes.data()),
                                           bytes.size());
      CHECK(place.checksums[0] ==
            crc32c(all.subspan(place.position, std::min<size_t>(value.nbytes(), 16 << 20))));
      const auto archive = formats::TorchArchive::read(
          all.subspan(place.slice_offset, place.slice_length), tensor.name);
      const auto stored = archive.tensor(archive.root());
      REQUIRE(stored);
      CHECK(stored->shape == place.box.shape);
      CHECK(stored->data.data() == all.data() + place.position);
      ++seen;
    }
  }
  CHECK(seen == boxes.size());
  SECTION("from a copy, which later changes of the tensors do not reach") {
    RankFile copied("id", 3, boxes, {"first", "second value"});
    const AlignedMemory memory = allocate_aligned(copied.bytes());
    copied.stage({memory.get(), copied.bytes()});
    for (const SavedBox& box : boxes) box.value.zero_();
    const TemporaryFolder other;
    copied.write_staged(other.path(), {memory.get(), copied.bytes()});
    CHECK(read_file(other / copied.name()) == bytes);
    CHECK(run_folder::to_json_text(copied.index()) == run_folder::to_json_text(index));
  }
}

}  // namespace am::checkpoint
