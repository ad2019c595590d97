// Tests the C interface to checkpoints. For every checkpoint in tests/data, the interface returns
// the tensors and values that TensorSource reads. Errors are returned, not thrown.
#include "am/frameworks/am_checkpoint.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <thread>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

namespace fs = std::filesystem;

struct Close {
  void operator()(am_checkpoint* checkpoint) const { am_checkpoint_close(checkpoint); }
};
using Checkpoint = std::unique_ptr<am_checkpoint, Close>;

Checkpoint opened(const fs::path& path) {
  Checkpoint checkpoint(am_checkpoint_open(path.c_str()));
  INFO(path << ": " << am_checkpoint_error());
  REQUIRE(checkpoint);
  return checkpoint;
}

// Returns all checkpoints in tests/data that can be opened.
std::vector<fs::path> checkpoints() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(test::kDataFolder)) {
    const fs::path& path = entry.path();
    const std::string ending = path.extension().string();
    const bool file = ending == ".safetensors" || ending == ".pt" || ending == ".bin";
    if (!entry.is_directory() && !file) continue;
    try {
      frameworks::open_tensor_source(path);
      found.push_back(path);
    } catch (const Error&) {  // not a checkpoint, or a deliberately damaged one
    }
  }
  return found;
}

std::vector<std::byte> read(const stored::TensorSource& source, const stored::StoredTensor& tensor,
                            const mesh::Box& box) {
  std::vector<std::byte> values(
      static_cast<size_t>(box.numel() * formats::dtype_size(tensor.dtype)));
  source.read(tensor.name, box, {values.data(), stored::dense_strides(box.shape)});
  return values;
}

void compare(const am_checkpoint& checkpoint, const stored::TensorSource& source,
             const stored::StoredTensor& tensor, bool is_state) {
  INFO(tensor.name);
  const int64_t index = am_checkpoint_find(&checkpoint, tensor.name.c_str());
  am_checkpoint_tensor described = {};
  REQUIRE(am_checkpoint_describe(&checkpoint, index, &described) == 0);
  CHECK(described.name == tensor.name);
  CHECK(described.dtype == formats::torch_name(tensor.dtype));
  CHECK(described.element_size == formats::dtype_size(tensor.dtype));
  CHECK(std::equal(tensor.shape.begin(), tensor.shape.end(), described.shape,
                   described.shape + described.dims));
  CHECK((described.is_state != 0) == is_state);
  const mesh::Box whole = mesh::Box::whole(tensor.shape);
  std::vector<std::byte> values(static_cast<size_t>(tensor.bytes()));
  REQUIRE(am_checkpoint_read(&checkpoint, index, nullptr, nullptr, values.data(), values.size()) ==
          0);
  CHECK(values == read(source, tensor, whole));
  // Read the second half of every dim.
  mesh::Box half = whole;
  for (size_t dim = 0; dim < half.shape.size(); ++dim) {
    half.offset[dim] = tensor.shape[dim] / 2;
    half.shape[dim] -= half.offset[dim];
  }
  values.resize(static_cast<size_t>(half.numel() * formats::dtype_size(tensor.dtype)));
  REQUIRE(am_checkpoint_read(&checkpoint, index, half.offset.data(), half.shape.data(),
                             values.data(), values.size()) == 0);
  CHECK(values == read(source, tensor, half));
}

}  // namespace

TEST_CASE("am_checkpoint reads every checkpoint of the tests") {
  const std::vector<fs::path> paths = checkpoints();
  CHECK(paths.size() > 50);
  for (const fs::path& path : paths) {
    INFO(path);
    const auto source = frameworks::open_tensor_source(path);
    const Checkpoint checkpoint = opened(path);
    CHECK(am_checkpoint_format(checkpoint.get()) == source->format());
    CHECK(am_checkpoint_step(checkpoint.get()) == source->step().value_or(-1));
    CHECK(am_checkpoint_count(checkpoint.get()) ==
          std::ssize(source->tensors()) + std::ssize(source->optimizer_tensors()));
    for (const auto& tensor : source->tensors()) compare(*checkpoint, *source, tensor, false);
    for (const auto& tensor : source->optimizer_tensors()) {
      compare(*checkpoint, *source, tensor, true);
    }
  }
}

TEST_CASE("am_checkpoint returns errors with messages") {
  CHECK(am_checkpoint_open("/no/such/folder") == nullptr);
  CHECK_THAT(am_checkpoint_error(), Catch::Contains("/no/such/folder"));
  const TemporaryFolder folder;
  const fs::path model = fs::path(test::kDataFolder) / "hf" / "llama" / "model.safetensors";
  const std::string bytes = read_file(model);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, bytes.size() - 1}) {
    const fs::path file = folder.path() / "model.safetensors";
    write_file_atomically(file, bytes.substr(0, size));
    CHECK(am_checkpoint_open(file.c_str()) == nullptr);
    CHECK_FALSE(std::string(am_checkpoint_error()).empty());
  }
  const Checkpoint checkpoint = opened(model);
  CHECK(am_checkpoint_find(checkpoint.get(), "absent") == -1);
  CHECK_THAT(am_checkpoint_error(), Catch::Contains("absent"));
  am_checkpoint_tensor tensor = {};
  for (const int64_t index : {int64_t{-1}, am_checkpoint_count(checkpoint.get())}) {
    CHECK(am_checkpoint_describe(checkpoint.get(), index, &tensor) == -1);
  }
  const int64_t index = am_checkpoint_find(checkpoint.get(), "model.norm.weight");
  REQUIRE(am_checkpoint_describe(checkpoint.get(), index, &tensor) == 0);
  const int64_t size = tensor.shape[0];
  std::vector<float> values(static_cast<size_t>(size));
  const auto fails = [&](int64_t first, int64_t count, size_t bytes_of_values) {
    return am_checkpoint_read(checkpoint.get(), index, &first, &count, values.data(),
                              bytes_of_values) == -1;
  };
  CHECK(fails(0, size + 1, 4 * values.size() + 4));
  CHECK(fails(-1, 1, 4));
  CHECK(fails(size, 1, 4));
  CHECK(fails(1, INT64_MAX, 4));
  CHECK(fails(0, -1, 4));
  CHECK(fails(INT64_MIN, 1, 4));
  const int64_t before = INT64_MIN;
  CHECK(am_checkpoint_read(checkpoint.get(), index, &before, nullptr, values.data(), 4) == -1);
  CHECK(fails(0, size, 4));
  CHECK_FALSE(fails(size, 0, 0));
}

TEST_CASE("am_checkpoint: a file that becomes shorter is an error of reading") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  fs::copy_file(fs::path(test::kDataFolder) / "hf" / "llama" / "model.safetensors", file);
  const Checkpoint checkpoint = opened(file);
  fs::resize_file(file, 4096);
  int failures = 0;
  for (int64_t i = 0; i < am_checkpoint_count(checkpoint.get()); ++i) {
    am_checkpoint_tensor tensor = {};
    REQUIRE(am_checkpoint_describe(checkpoint.get(), i, &tensor) == 0);
    size_t elements = 1;
    for (int32_t dim = 0; dim < tensor.dims; ++dim) {
      elements *= static_cast<size_t>(tensor.shape[dim]);
    }
    std::vector<float> values(elements);
    failures +=
        am_checkpoint_read(checkpoint.get(), i, nullptr, nullptr, values.data(), 4 * elements) == 0
            ? 0
            : 1;
  }
  CHECK(failures > 0);
}

TEST_CASE("am_checkpoint: threads read at the same time, and have errors of their own") {
  const Checkpoint checkpoint = opened(fs::path(test::kDataFolder) / "dcp" / "fsdp4");
  std::vector<std::thread> threads;
  std::vector<std::string> errors(4);
  for (size_t i = 0; i < errors.size(); ++i) {
    threads.emplace_back([&, i] {
      am_checkpoint_find(checkpoint.get(), cat("absent", i).c_str());
      errors[i] = am_checkpoint_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < errors.size(); ++i) {
    CHECK_THAT(errors[i], Catch::EndsWith(cat("absent", i)));
  }
}

}  // namespace am
