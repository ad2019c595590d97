// Stored named tensors, readable box by box, whatever the format; frameworks/open_weights.h opens
// them.
//
//   auto source = frameworks::open_tensor_source("checkpoints/step-100");
//   std::vector<float> rows(512 * 4096);   // source->find(..)->dtype is kFloat32
//   source->read("model.embed_tokens.weight", {{1024, 0}, {512, 4096}},
//                {std::as_writable_bytes(std::span(rows)).data(), {4096, 1}});
//
// To read into libtorch's tensors of any dtype, see checkpoint/read_tensor.h.
//
// Data is memory-mapped: a rank only touches the pages of its own shard.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/formats/dtype.h"
#include "am/mesh/shard.h"
#include "am/stored/strided_copy.h"

namespace am::formats {
class PickleValue;
}  // namespace am::formats

namespace am::stored {

// A part of a tensor in one file. `rank` is the rank that wrote it, 0 if files are not written per
// rank.
struct StoredShard {
  int64_t rank = 0;
  mesh::Box box;
};

struct StoredTensor {
  std::string name;
  Shape shape;  // global
  formats::Dtype dtype = formats::Dtype::kFloat32;
  std::vector<StoredShard> shards;  // they cover the shape

  int64_t numel() const { return am::numel(shape); }
  int64_t bytes() const { return numel() * formats::dtype_size(dtype); }
};

// A problem of stored files; `where` is a tensor or a file in the folder.
struct StoredProblem {
  std::string where;
  std::string what;
};

// How opening handles files that are missing, truncated or of another save. Data is checked when it
// is read in either case.
//   kRefuse   throws, if the damage is detectable at that point
//   kReport    opens the remaining files; TensorSource::damage() lists the damage
enum class OnDamage { kRefuse, kReport };

// Callbacks of a complete verification.
struct VerifyCalls {
  std::function<void(StoredProblem)> found;
  // Called between blocks of a few MiB; an exception ends the verification. May be empty.
  std::function<void()> between;
  // Called for each verified block. May be empty.
  std::function<void(int64_t bytes)> saw = {};
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // The format's writer: "huggingface", "dcp", "torch", "automesh", or one of
  // frameworks/framework_folder.h.
  virtual std::string format() const = 0;
  // A remark about names and rows for people; may be empty.
  virtual std::string note() const { return {}; }
  virtual std::filesystem::path path() const = 0;
  // The model's parameters, in natural order of their names.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  // Optimizer state, keyed "optim.state.NAME.exp_avg", and trainer tensors that are not parameters,
  // also in natural order; empty for a Hugging Face folder.
  virtual const std::vector<StoredTensor>& optimizer_tensors() const = 0;
  // Names of stored values that are not tensors: numbers, texts, and other pickled objects.
  virtual std::vector<std::string> values() const { return {}; }
  // Calls `view` with the value of a name in values(); returns false if there is no value of that
  // name.
  using VisitValue = std::function<void(const formats::PickleValue&)>;
  virtual bool visit_value(std::string_view name, const VisitValue& view) const;
  // The training step, if the files contain it.
  virtual std::optional<int64_t> step() const { return std::nullopt; }
  // Files that are missing, truncated or from another save, judged by names and sizes. Their data
  // cannot be read; tensors() lacks tensors that only a missing file lists.
  virtual std::vector<StoredProblem> damage() const { return {}; }
  // Returns null if there is no tensor of that name.
  const StoredTensor* find(std::string_view name) const;
  // Copies the box of the named tensor, with elements as stored. The box must lie inside the
  // tensor. Throws Error(kFormat) if there is no such tensor or its files have changed.
  virtual void read(std::string_view name, const mesh::Box& box, const Destination& out) const = 0;
  // Calls `view` with the elements of the box in the mapped file, without a copy. Returns false
  // without a call if they are not contiguous in memory. Throws as read, possibly after `view`
  // returned, if the file changed while it was mapped; the bytes are then invalid.
  using ViewBytes = std::function<void(std::span<const std::byte>)>;
  virtual bool view(std::string_view /*name*/, const mesh::Box& /*box*/,
                    const ViewBytes& /*view*/) const {
    return false;
  }
  // A hint that the box is read next: fetches its pages and waits for them. Thread-safe, also
  // during read().
  virtual void prefetch(std::string_view /*name*/, const mesh::Box& /*box*/) const {}
  // The model's config.json beside the weights; empty if there is none.
  virtual std::filesystem::path config_file() const = 0;
  // The files that contain the tensors.
  virtual std::vector<std::filesystem::path> data_files() const { return {path()}; }
  // The file that contains the tensor's shard with this index; empty if unknown.
  virtual std::filesystem::path file_of(const StoredTensor& tensor, size_t shard) const;
  // Checksums stored with the values: for each shard in turn, one per piece of 16 MiB. Empty if
  // there are none.
  virtual std::vector<uint32_t> checksums(const StoredTensor& /*tensor*/) const { return {}; }
  // Reads all stored data, one block at a time, and reports each problem once. The constructor has
  // checked that the parts cover the tensors; this default reads every tensor part by part.
  virtual void verify(const VerifyCalls& calls) const;
};

// Number of stored bytes; for a source, including optimizer states.
int64_t bytes_of(const std::vector<StoredTensor>& tensors);
int64_t bytes_of(const TensorSource& source);

// Converts an error of `source` to a problem, without the folder's path in front.
StoredProblem as_problem(const TensorSource& source, std::string where,
                         const std::exception& error);

// Converts an error of a file in `folder` to a problem of that file.
StoredProblem file_problem(const std::filesystem::path& folder, const std::string& file,
                           const std::exception& error);

[[noreturn]] void no_tensor(const std::filesystem::path& path, std::string_view name);
// Returns the source's entry for a tensor's name. Throws Error(kFormat) that names `path` if there
// is none.
template <typename Places>
const typename Places::mapped_type& place_in(const Places& places, std::string_view name,
                                             const std::filesystem::path& path) {
  const auto found = places.find(name);
  if (found == places.end()) no_tensor(path, name);
  return found->second;
}

// Returns why the shards of a tensor are not a partition of it; nothing if they are.
std::optional<std::string> why_not_covered(const StoredTensor& tensor);
// Throws Error(kFormat) that names `path` if the shards are not a partition of the tensor.
void require_covered(const StoredTensor& tensor, const std::filesystem::path& path);

// Throws Error(kFormat) that names `path` if `parts` do not cover the box of a tensor exactly once.
void require_held(const std::vector<mesh::Box>& parts, const mesh::Box& box, std::string_view name,
                  const std::filesystem::path& path);

}  // namespace am::stored
