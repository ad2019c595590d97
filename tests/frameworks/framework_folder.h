// Helpers that compare the checkpoints in tests/data/frameworks with their expected contents.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "am/stored/tensor_source.h"
#include "support/folders.h"

namespace am::frameworks {

inline const std::filesystem::path kFrameworks =
    std::filesystem::path(test::kDataFolder) / "frameworks";

// Returns the stored bytes of a box of the tensor `name`, in row-major order.
inline std::vector<std::byte> read_box(const stored::TensorSource& source, const std::string& name,
                                       const mesh::Box& box) {
  const int64_t size = formats::dtype_size(source.find(name)->dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(box.numel() * size));
  source.read(name, box, {bytes.data(), stored::dense_strides(box.shape)});
  return bytes;
}

inline std::vector<std::byte> read_all(const stored::TensorSource& source,
                                       const std::string& name) {
  const Shape& shape = source.find(name)->shape;
  return read_box(source, name, {Shape(shape.size(), 0), shape});
}

inline std::set<std::string> all_names(const stored::TensorSource& source) {
  std::set<std::string> names;
  for (const auto* list : {&source.tensors(), &source.optimizer_tensors()}) {
    for (const stored::StoredTensor& each : *list) names.insert(each.name);
  }
  return names;
}

// Checks that the source contains the tensors of `name`/expected.safetensors, with equal values,
// and no other tensors except those named in `besides`.
inline void check_expected(const stored::TensorSource& source, const std::string& name,
                           const std::set<std::string>& besides = {}) {
  const auto expected = open_tensor_source(kFrameworks / name / "expected.safetensors");
  std::set<std::string> names = besides;
  for (const std::string& each : all_names(*expected)) {
    INFO(name << ": " << each);
    names.insert(each);
    const stored::StoredTensor* stored = source.find(each);
    REQUIRE(stored != nullptr);
    CHECK(stored->dtype == expected->find(each)->dtype);
    CHECK(stored->shape == expected->find(each)->shape);
    CHECK(read_all(source, each) == read_all(*expected, each));
    // The stored shards cover the whole tensor.
    CHECK_NOTHROW(stored::require_covered(*stored, source.path()));
  }
  CHECK(all_names(source) == names);
}

// Checks reads of the tensor `name` in every box of an odd number of consecutive rows. The boxes of
// a matrix omit its first and last column.
inline void check_boxes(const stored::TensorSource& source, const std::string& name) {
  const stored::StoredTensor& tensor = *source.find(name);
  const int64_t size = formats::dtype_size(tensor.dtype);
  const std::vector<std::byte> all = read_all(source, name);
  const int64_t width = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  for (int64_t first = 0; first < tensor.shape[0]; ++first) {
    for (int64_t rows = 1; rows <= tensor.shape[0] - first; rows += 2) {
      mesh::Box box{{first}, {rows}};
      if (tensor.shape.size() == 2) {
        box.offset.push_back(1);
        box.shape.push_back(width - 2);
      }
      std::vector<std::byte> expected(static_cast<size_t>(box.numel() * size));
      const Shape strides = tensor.shape.size() == 2 ? Shape{width, 1} : Shape{1};
      stored::copy_box(all, strides, box, size,
                       {expected.data(), stored::dense_strides(box.shape)});
      CHECK(read_box(source, name, box) == expected);
    }
  }
}

// A temporary copy of a framework's folder, for tests that change files. The destructor deletes the
// copy.
struct FrameworkFolder {
  std::filesystem::path path;

  explicit FrameworkFolder(const std::filesystem::path& from, const std::string& name = {})
      : path(std::filesystem::temp_directory_path() / cat("am_frameworks_", ::getpid(), name)) {
    std::filesystem::remove_all(path);
    std::filesystem::copy(from, path, std::filesystem::copy_options::recursive);
  }
  ~FrameworkFolder() { std::filesystem::remove_all(path); }
  FrameworkFolder(const FrameworkFolder&) = delete;
  FrameworkFolder& operator=(const FrameworkFolder&) = delete;
};

}  // namespace am::frameworks
