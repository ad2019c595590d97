#include "am/stored/tensor_source.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/mesh/cover.h"
#include "am/stored/row_blocks.h"
#include "am/stored/rows.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

const StoredTensor* find_in(const std::vector<StoredTensor>& tensors, std::string_view name) {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const StoredTensor& tensor, std::string_view key) {
                                        return natural_less(tensor.name, key);
                                      });
  return found == tensors.end() || found->name != name ? nullptr : &*found;
}

std::string without(const std::string& prefix, const std::string& text) {
  return starts_with(text, prefix) ? text.substr(prefix.size()) : text;
}

// Maximum number of elements that verify() reads at a time, unless a single row has more. This is
// 32 MiB of float32.
constexpr int64_t kVerifyBlock = int64_t{8} << 20;

}  // namespace

const StoredTensor* TensorSource::find(std::string_view name) const {
  const auto* parameter = find_in(tensors(), name);
  return parameter != nullptr ? parameter : find_in(optimizer_tensors(), name);
}

bool TensorSource::visit_value(std::string_view, const VisitValue&) const { return false; }

fs::path TensorSource::file_of(const StoredTensor&, size_t) const {
  const std::vector<fs::path> files = data_files();
  return files.size() == 1 ? files.front() : fs::path();
}

void TensorSource::verify(const VerifyCalls& calls) const {
  for (StoredProblem& problem : damage()) calls.found(std::move(problem));
  std::vector<std::byte> values;
  for (const auto* list : {&tensors(), &optimizer_tensors()}) {
    for (const StoredTensor& tensor : *list) {
      for (const StoredShard& shard : tensor.shards) {
        bool readable = true;  // false after the first error of this shard
        for_each_row_block(shard.box, kVerifyBlock, [&](const mesh::Box& block) {
          if (calls.between) calls.between();
          const int64_t bytes = block.numel() * formats::dtype_size(tensor.dtype);
          if (calls.saw) calls.saw(bytes);
          if (!readable) return;
          try {
            values.resize(static_cast<size_t>(bytes));
            read(tensor.name, block, {values.data(), dense_strides(block.shape)});
          } catch (const Error& error) {
            readable = false;
            calls.found(as_problem(*this, tensor.name, error));
          }
        });
      }
    }
  }
}

int64_t bytes_of(const std::vector<StoredTensor>& tensors) {
  int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

int64_t bytes_of(const TensorSource& source) {
  return bytes_of(source.tensors()) + bytes_of(source.optimizer_tensors());
}

StoredProblem as_problem(const TensorSource& source, std::string where,
                         const std::exception& error) {
  return {std::move(where), without(cat(source.path().string(), "/"), error.what())};
}

StoredProblem file_problem(const fs::path& folder, const std::string& file,
                           const std::exception& error) {
  return {file, without(cat((folder / file).string(), ": "), error.what())};
}

void no_tensor(const fs::path& path, std::string_view name) {
  throw Error(ErrorKind::kFormat, cat(path.string(), ": no tensor named ", name));
}

std::optional<std::string> why_not_covered(const StoredTensor& tensor) {
  std::vector<const mesh::Box*> boxes;
  boxes.reserve(tensor.shards.size());
  for (const StoredShard& shard : tensor.shards) boxes.push_back(&shard.box);
  return mesh::why_not_covered(tensor.shape, boxes);
}

void require_covered(const StoredTensor& tensor, const fs::path& path) {
  if (const auto problem = why_not_covered(tensor)) {
    throw Error(ErrorKind::kFormat, cat(path.string(), ": ", tensor.name, ": ", *problem),
                "files are missing or belong to several checkpoints; copy the folder again");
  }
}

void require_held(const std::vector<mesh::Box>& parts, const mesh::Box& box, std::string_view name,
                  const fs::path& path) {
  std::vector<mesh::Box> held;
  for (const mesh::Box& part : parts) {
    if (const auto common = mesh::intersect(part, box)) held.push_back(inside(box, *common));
  }
  std::vector<const mesh::Box*> pointers;
  for (const mesh::Box& part : held) pointers.push_back(&part);
  const auto problem = mesh::why_not_covered(box.shape, pointers);
  if (!problem) return;
  throw Error(ErrorKind::kFormat, cat(path.string(), ": ", name, ": ", *problem),
              "files are missing or belong to several checkpoints; copy the folder again");
}

}  // namespace am::stored
