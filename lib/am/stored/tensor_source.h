// Interface to the named tensors in checkpoint files of any format. read() copies one box of a
// tensor. Use frameworks/open_weights.h to open files.
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

// A box of a tensor that is stored in one file. `rank`: the rank that wrote the file; 0 in formats
// without files per rank.
struct StoredShard {
  int64_t rank = 0;
  mesh::Box box;
};

struct StoredTensor {
  std::string name;
  Shape shape;  // shape of the full tensor
  formats::Dtype dtype = formats::Dtype::kFloat32;
  // The stored boxes of the tensor. Together they cover the tensor, except if files are damaged, or
  // if only a part of a checkpoint was opened (open_automesh_part).
  std::vector<StoredShard> shards;

  int64_t numel() const { return am::numel(shape); }
  int64_t bytes() const { return numel() * formats::dtype_size(dtype); }
};

// A problem in stored files. `where`: the name of the tensor, or the path of the file relative to
// the folder. `what`: description of the problem.
struct StoredProblem {
  std::string where;
  std::string what;
};

// How opening a checkpoint handles files that are missing, truncated or from another save. Opening
// does not check values. If the format has checksums, read() and verify() check values.
//   kRefuse   throws, if the damage can be detected without reading data
//   kReport   opens the remaining files; TensorSource::damage() lists the damage
enum class OnDamage { kRefuse, kReport };

// Callbacks of TensorSource::verify().
struct VerifyCalls {
  // Called for each problem.
  std::function<void(StoredProblem)> found;
  // Called before each block of values, usually at most 64 MiB; an exception ends the verification.
  // May be empty.
  std::function<void()> between;
  // Called with the size of each block, before the block is verified. May be empty.
  std::function<void(int64_t bytes)> saw = {};
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // Returns the name of the format, for example "huggingface", "dcp", "torch" or "automesh", or the
  // name of a framework in frameworks/open_weights.cpp.
  virtual std::string format() const = 0;
  // Returns a remark for the user, for example on files that may be missing; may be empty.
  virtual std::string note() const { return {}; }
  virtual std::filesystem::path path() const = 0;
  // Returns the model's parameters, in natural order of their names.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  // Returns two kinds of tensors, together in natural order of their names: optimizer states, with
  // names like "optim.state.NAME.exp_avg", and tensors of the trainer that are not parameters.
  virtual const std::vector<StoredTensor>& optimizer_tensors() const = 0;
  // Returns the names of stored values that are not tensors: numbers, strings, and other pickled
  // objects.
  virtual std::vector<std::string> values() const { return {}; }
  // Calls `view` with the value of this name, one of values(). Returns false if there is no such
  // value.
  using VisitValue = std::function<void(const formats::PickleValue&)>;
  virtual bool visit_value(std::string_view name, const VisitValue& view) const;
  // Returns the number of the training step at which the files were saved; nullopt if the files do
  // not contain it.
  virtual std::optional<int64_t> step() const { return std::nullopt; }
  // Returns the problems that were found without reading values: files that are missing, truncated
  // or from another save. Values in these files cannot be read. tensors() lacks tensors that are
  // listed only in a missing file.
  virtual std::vector<StoredProblem> damage() const { return {}; }
  // Returns the tensor with this name in tensors() or optimizer_tensors(); null if there is none.
  const StoredTensor* find(std::string_view name) const;
  // Copies a box of the named tensor to `out`, in the stored dtype. The box must lie inside the
  // tensor. Throws Error if no tensor has this name, or if the tensor's files are damaged or have
  // changed since they were opened.
  virtual void read(std::string_view name, const mesh::Box& box, const Destination& out) const = 0;
  // Calls `view` with the bytes of the box's elements in the mapped file, without a copy. Returns
  // false without calling `view` if this is not possible, for example for elements that are not
  // contiguous. Throws the errors of read(). If the file shrinks while it is mapped, the bytes that
  // the callback reads may be invalid; the error is thrown after the callback has returned.
  using ViewBytes = std::function<void(std::span<const std::byte>)>;
  virtual bool view(std::string_view /*name*/, const mesh::Box& /*box*/,
                    const ViewBytes& /*view*/) const {
    return false;
  }
  // Loads the pages of a box into memory, and waits until the pages are loaded. A read() of the box
  // afterwards need not wait for the disk. Other threads may call prefetch() and read() at the same
  // time.
  virtual void prefetch(std::string_view /*name*/, const mesh::Box& /*box*/) const {}
  // Returns the path of the model's config.json beside the weights; empty if there is none.
  virtual std::filesystem::path config_file() const = 0;
  // Returns the paths of the files with the tensors' values.
  virtual std::vector<std::filesystem::path> data_files() const { return {path()}; }
  // Returns the path of the file that contains shard `shard` of the tensor; empty if unknown.
  virtual std::filesystem::path file_of(const StoredTensor& tensor, size_t shard) const;
  // Returns the stored checksums of the tensor's values: for each shard in turn, one checksum per
  // 16 MiB of values. Empty for formats without checksums.
  virtual std::vector<uint32_t> checksums(const StoredTensor& /*tensor*/) const { return {}; }
  // Verifies all stored values, one block at a time, and passes each problem to `calls.found`. The
  // default implementation passes the problems of damage(), then reads every shard of every tensor.
  // It does not check whether the shards cover the tensors: opening the files has checked this.
  virtual void verify(const VerifyCalls& calls) const;
};

// Return the total size in bytes of these full tensors, or of all tensors of a source, including
// optimizer_tensors().
int64_t bytes_of(const std::vector<StoredTensor>& tensors);
int64_t bytes_of(const TensorSource& source);

// Converts an error in a source's files to a StoredProblem. Removes the source's path from the
// beginning of the message. `where`: as in StoredProblem.
StoredProblem as_problem(const TensorSource& source, std::string where,
                         const std::exception& error);

// Converts an error in the file `file` of a folder to a StoredProblem. Removes the file's path from
// the beginning of the message.
StoredProblem file_problem(const std::filesystem::path& folder, const std::string& file,
                           const std::exception& error);

[[noreturn]] void no_tensor(const std::filesystem::path& path, std::string_view name);
// Returns the entry for a tensor's name in `places`, a map from names to entries. Throws
// Error(kFormat), which names `path`, if there is no entry.
template <typename Places>
const typename Places::mapped_type& place_in(const Places& places, std::string_view name,
                                             const std::filesystem::path& path) {
  const auto found = places.find(name);
  if (found == places.end()) no_tensor(path, name);
  return found->second;
}

// Returns why the shards do not cover each element of the tensor exactly once; nullopt if they do.
std::optional<std::string> why_not_covered(const StoredTensor& tensor);
// Throws Error(kFormat), which names `path`, unless the shards cover each element of the tensor
// exactly once.
void require_covered(const StoredTensor& tensor, const std::filesystem::path& path);

// Throws Error(kFormat), which names `path`, unless the boxes `parts` of the tensor `name` cover
// each element of `box` exactly once.
void require_held(const std::vector<mesh::Box>& parts, const mesh::Box& box, std::string_view name,
                  const std::filesystem::path& path);

}  // namespace am::stored
