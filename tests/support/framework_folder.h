// Checkpoints of tests/data/frameworks, compared with what their frameworks say is in them.
#pragma once

#include <ATen/ATen.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/stored/tensor_source.h"
#include "am/tensor/redistribute.h"

namespace am::checkpoint {

inline const std::filesystem::path kFrameworks = std::filesystem::path(AM_TEST_DATA) / "frameworks";

// Bytes, for not every dtype can be compared.
inline bool equal_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 ||
          std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0);
}

inline std::set<std::string> all_names(const stored::TensorSource& source) {
  std::set<std::string> names;
  for (const auto* list : {&source.tensors(), &source.optimizer_tensors()}) {
    for (const stored::StoredTensor& each : *list) names.insert(each.name);
  }
  return names;
}

// Checks that the source has the tensors of `name`/expected.safetensors and `besides`, no others.
inline void check_expected(const stored::TensorSource& source, const std::string& name,
                           const std::set<std::string>& besides = {}) {
  const auto expected = stored::open_tensor_source(kFrameworks / name / "expected.safetensors");
  std::set<std::string> names = besides;
  for (const std::string& each : all_names(*expected)) {
    INFO(name << ": " << each);
    names.insert(each);
    const stored::StoredTensor* stored = source.find(each);
    REQUIRE(stored != nullptr);
    CHECK(equal_bytes(checkpoint::read_all(source, each), checkpoint::read_all(*expected, each)));
    // Where a rank's rows are said to be they are: shards make up the tensor.
    CHECK_NOTHROW(stored::require_covered(*stored, source.path()));
  }
  CHECK(all_names(source) == names);
}

// All boxes of a step of rows, some columns cut off.
inline void check_boxes(const stored::TensorSource& source, const std::string& name) {
  const at::Tensor all = checkpoint::read_all(source, name);
  for (int64_t first = 0; first < all.size(0); ++first) {
    for (int64_t rows = 1; rows <= all.size(0) - first; rows += 2) {
      mesh::Box box{{first}, {rows}};
      if (all.dim() == 2) {
        box.offset.push_back(1);
        box.shape.push_back(all.size(1) - 2);
      }
      at::Tensor out = at::empty(box.shape, at::kDouble);
      checkpoint::read(source, name, box, out);
      const Shape origin(box.shape.size(), 0);
      CHECK(at::equal(out, tensor::view_box(all, origin, box).to(at::kDouble)));
    }
  }
}

// A copy that a test may change.
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

}  // namespace am::checkpoint
