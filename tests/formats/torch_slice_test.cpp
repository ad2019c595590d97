// Tests that the library's readers for files of PyTorch read the archives and the `.metadata` that
// the library writes. (scripts/fixtures/check_checkpoints.py reads them with PyTorch itself.)
#include "am/formats/torch_slice.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle.h"
#include "am/formats/pickle_writer.h"
#include "am/formats/torch_archive.h"
#include "support/temporary_folder.h"

namespace am::formats {
namespace {

std::span<const std::byte> slice_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

TEST_CASE("a pickle holds what was written into it") {
  PickleWriter writer;
  writer.empty_dict();
  writer.open_mark();
  writer.text("numbers");
  writer.open_mark();
  for (const int64_t number :
       {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{65'535}, int64_t{65'536}, int64_t{-1},
        int64_t{1} << 40, -(int64_t{1} << 40)}) {
    writer.integer(number);
  }
  writer.close_tuple();
  writer.text("real");
  writer.real(-0.1);
  writer.text("flags");
  writer.empty_list();
  writer.open_mark();
  writer.boolean(true);
  writer.boolean(false);
  writer.none();
  writer.close_list_items();
  // With 300 different strings, memo indices need several bytes. "numbers" and torch.float32 are
  // repeated.
  for (int i = 0; i < 300; ++i) {
    writer.text(cat("key", i));
    writer.text("numbers");
  }
  writer.text("tag");
  writer.global("torch", "float32");
  writer.text("tag again");
  writer.global("torch", "float32");
  writer.text("c");
  writer.text("ctorch\nfloat32\n");
  writer.close_dict_items();
  const std::string bytes = std::move(writer).finish();
  const Pickle pickle = Pickle::read(slice_bytes(bytes), "p");
  const PickleValue& root = pickle.root();
  std::vector<int64_t> numbers;
  for (const auto& item : root.find("numbers")->items()) numbers.push_back(*item.integer());
  CHECK(numbers == std::vector<int64_t>{0, 255, 256, 65'535, 65'536, -1, int64_t{1} << 40,
                                        -(int64_t{1} << 40)});
  CHECK(root.find("real")->real() == -0.1);
  const auto flags = root.find("flags")->items();
  REQUIRE(flags.size() == 3);
  CHECK((flags[0].truth() && flags[1].is(PickleKind::kBool) && flags[2].is(PickleKind::kNone)));
  CHECK(root.find("key299")->text() == "numbers");
  CHECK(root.find("tag")->is_global("torch", "float32"));
  CHECK(root.find("tag again")->is_global("torch", "float32"));
  CHECK(root.find("c")->text() == "ctorch\nfloat32\n");
  CHECK(pickle.globals().size() == 1);
}

TEST_CASE("a tensor's slice is read back, its values where they were aligned to") {
  for (const char* dtype : {"float32", "bfloat16", "int64", "bool", "float8_e4m3fn", "uint16"}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 5}, Shape{4, 1, 6}}) {
      for (const uint64_t position : {uint64_t{0}, uint64_t{71}, uint64_t{1} << 40}) {
        const TorchSlice slice = tensor_slice(dtype, shape, position);
        CHECK((position + slice.before.size()) % kSliceAlignment == 0);
        std::string values(static_cast<size_t>(numel(shape) * torch_dtype_size(dtype)), '\0');
        std::iota(values.begin(), values.end(), '\1');
        const std::string whole = slice.before + values + slice.after;
        const auto archive = TorchArchive::read(slice_bytes(whole), "s");
        const auto tensor = archive.tensor(archive.root());
        REQUIRE(tensor);
        CHECK(tensor->dtype == dtype);
        CHECK(tensor->shape == shape);
        CHECK(std::memcmp(tensor->data.data(), values.data(), values.size()) == 0);
      }
    }
  }
}

TEST_CASE("a slice of more than 4 GiB has zip64's sizes") {
  // The file is sparse: the values are a hole and need no disk space.
  const TemporaryFolder folder;
  const Shape shape = {(int64_t{1} << 32) + 3};
  const TorchSlice slice = tensor_slice("uint8", shape, 0);
  write_file_atomically(folder / "x", slice.before);
  const uint64_t end = slice.before.size() + static_cast<uint64_t>(shape[0]);
  std::filesystem::resize_file(folder / "x", end);
  FileWriter(folder / "x", WriteMode::kAppend).write(slice.after);
  const MappedFile file(folder / "x");
  const auto archive = TorchArchive::read(file.bytes(), "x");
  const auto tensor = archive.tensor(archive.root());
  REQUIRE(tensor);
  CHECK(tensor->shape == shape);
  CHECK(tensor->data.data() == file.bytes().data() + slice.before.size());
}

TEST_CASE("metadata is read back as it was written") {
  DcpMetadata metadata;
  metadata.files = {"__0_0.distcp", "__1_0.distcp"};
  metadata.tensors.push_back({"model.w",
                              {"model", "w"},
                              "bfloat16",
                              {5, 2},
                              {{{0, 0}, {3, 2}, {0, 10, 1'000}}, {{3, 0}, {2, 2}, {1, 20, 900}}}});
  metadata.tensors.push_back({"optim.state.w.step",
                              {"optim", "state", "w", "step"},
                              "float32",
                              {},
                              {{{}, {}, {0, 5'000'000'000, 7}}}});
  metadata.values.push_back(
      {"optim.param_groups.0.lr", {"optim", "param_groups", int64_t{0}, "lr"}, {1, 3'000, 400}});
  const TemporaryFolder folder;
  write_file_atomically(folder / kDcpMetadataFile, dcp_metadata_bytes(metadata));
  const DcpMetadata read = read_dcp_metadata(folder / kDcpMetadataFile);
  CHECK(read.files == metadata.files);
  CHECK(read.writer == "torch");
  CHECK(read.alarms.empty());
  REQUIRE(read.tensors.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const DcpTensor& a = read.tensors[i];
    const DcpTensor& b = metadata.tensors[i];
    CHECK((a.name == b.name && a.path == b.path && a.dtype == b.dtype && a.shape == b.shape));
    REQUIRE(a.chunks.size() == b.chunks.size());
    for (size_t c = 0; c < a.chunks.size(); ++c) {
      CHECK((a.chunks[c].offset == b.chunks[c].offset && a.chunks[c].shape == b.chunks[c].shape));
      CHECK((a.chunks[c].slice.file == b.chunks[c].slice.file &&
             a.chunks[c].slice.offset == b.chunks[c].slice.offset &&
             a.chunks[c].slice.length == b.chunks[c].slice.length));
    }
  }
  REQUIRE(read.values.size() == 1);
  CHECK((read.values[0].path == metadata.values[0].path && read.values[0].slice.length == 400));
}

}  // namespace am::formats
