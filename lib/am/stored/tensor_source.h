// Interface to the named tensors in files of any format, which are read box by box.
// frameworks/open_weights.cpp opens the files.
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

// A part of a tensor in one file. `rank` is the rank that wrote the part, or 0 in formats whose
// files are not written per rank.
struct StoredShard {
  int64_t rank = 0;
  mesh::Box box;
};

struct StoredTensor {
  std::string name;
  Shape shape;  // shape of the full tensor
  formats::Dtype dtype = formats::Dtype::kFloat32;
  std::vector<StoredShard> shards;  // stored parts, which together cover the tensor

  int64_t numel() const { return am::numel(shape); }
  int64_t bytes() const { return numel() * formats::dtype_size(dtype); }
};

// A problem of stored files. `where` is the name of a tensor or of a file in the folder.
struct StoredProblem {
  std::string where;
  std::string what;
};

// How opening a checkpoint handles files that are missing, truncated or of another save. In either
// case, data is checked when it is read.
//   kRefuse   throws, if the damage can be detected without reading data
//   kReport   opens the remaining files; TensorSource::damage() lists the damage
enum class OnDamage { kRefuse, kReport };

// Callbacks of TensorSource::verify().
struct VerifyCalls {
  // Called for each problem.
  std::function<void(StoredProblem)> found;
  // Called between blocks of a few MiB; an exception ends the verification. May be empty.
  std::function<void()> between;
  // Called with the size of each block that was verified. May be empty.
  std::function<void(int64_t bytes)> saw = {};
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // Returns a name for the format: for example "huggingface", "dcp", "torch" or "automesh", or the
  // name of a framework in frameworks/open_weights.cpp.
  virtual std::string format() const = 0;
  // Returns a remark for the user, for example on files that may be missing; may be empty.
  virtual std::string note() const { return {}; }
  virtual std::filesystem::path path() const = 0;
  // Returns the model's parameters, in natural order of their names.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  // Returns optimizer states, with names like "optim.state.NAME.exp_avg", and the trainer's tensors
  // that are not parameters, all in natural order of their names.
  virtual const std::vector<StoredTensor>& optimizer_tensors() const = 0;
  // Returns the names of stored values that are not tensors: numbers, strings, and other pickled
  // objects.
  virtual std::vector<std::string> values() const { return {}; }
  // Calls `view` with the value that has this name in values(). Returns false if there is none.
  using VisitValue = std::function<void(const formats::PickleValue&)>;
  virtual bool visit_value(std::string_view name, const VisitValue& view) const;
  // Returns the number of the training step, if the files contain it.
  virtual std::optional<int64_t> step() const { return std::nullopt; }
  // Returns the problems of files that are missing, truncated or from another save, judged without
  // reading data. Data of these files cannot be read, and tensors() lacks the tensors that only a
  // missing file lists.
  virtual std::vector<StoredProblem> damage() const { return {}; }
  // Returns null if there is no tensor of that name.
  const StoredTensor* find(std::string_view name) const;
  // Copies the box of the named tensor to `out`, in the stored dtype. The box must lie inside the
  // tensor. Throws Error(kFormat) if there is no such tensor or its files have changed.
  virtual void read(std::string_view name, const mesh::Box& box, const Destination& out) const = 0;
  // Calls `view` with the bytes of the box's elements in the mapped file, without a copy. If that
  // is not possible, for example because they are not contiguous, returns false without calling
  // `view`. Throws what read throws. If the file changed while it was mapped, throws after `view`
  // has returned; `view` then saw invalid bytes.
  using ViewBytes = std::function<void(std::span<const std::byte>)>;
  virtual bool view(std::string_view /*name*/, const mesh::Box& /*box*/,
                    const ViewBytes& /*view*/) const {
    return false;
  }
  // Fetches the pages of a box that will be read next, and waits for them. Other threads may call
  // prefetch() and read() at the same time.
  virtual void prefetch(std::string_view /*name*/, const mesh::Box& /*box*/) const {}
  // Returns the path of the model's config.json beside the weights; empty if there is none.
  virtual std::filesystem::path config_file() const = 0;
  // Returns the paths of the files that contain the tensors.
  virtual std::vector<std::filesystem::path> data_files() const { return {path()}; }
  // Returns the path of the file that contains the tensor's shard with this index; empty if
  // unknown.
  virtual std::filesystem::path file_of(const StoredTensor& tensor, size_t shard) const;
  // Returns the checksums that are stored with the values: for each shard in turn, one checksum per
  // piece of 16 MiB. Empty for formats without checksums.
  virtual std::vector<uint32_t> checksums(const StoredTensor& /*tensor*/) const { return {}; }
  // Verifies all stored data, one block at a time, and reports each problem once. This default
  // reads every part of every tensor; that the parts cover the tensors was checked when the files
  // were opened.
  virtual void verify(const VerifyCalls& calls) const;
};

// Return the size in bytes of these tensors, or of all tensors of a source including its optimizer
// states.
int64_t bytes_of(const std::vector<StoredTensor>& tensors);
int64_t bytes_of(const TensorSource& source);

// Converts an error of `source` to a problem, and removes the folder's path from the message's
// beginning.
StoredProblem as_problem(const TensorSource& source, std::string where,
                         const std::exception& error);

// Converts an error of a file in `folder` to a problem of that file.
StoredProblem file_problem(const std::filesystem::path& folder, const std::string& file,
                           const std::exception& error);

[[noreturn]] void no_tensor(const std::filesystem::path& path, std::string_view name);
// Returns the entry of a source's map for a tensor's name. Throws Error(kFormat), which names
// `path`, if there is none.
template <typename Places>
const typename Places::mapped_type& place_in(const Places& places, std::string_view name,
                                             const std::filesystem::path& path) {
  const auto found = places.find(name);
  if (found == places.end()) no_tensor(path, name);
  return found->second;
}

// Returns why the shards of a tensor are not a partition of it; nothing if they are.
std::optional<std::string> why_not_covered(const StoredTensor& tensor);
// Throws Error(kFormat), which names `path`, if the shards are not a partition of the tensor.
void require_covered(const StoredTensor& tensor, const std::filesystem::path& path);

// Throws Error(kFormat), which names `path`, if `parts` do not cover the box of a tensor exactly
// once.
void require_held(const std::vector<mesh::Box>& parts, const mesh::Box& box, std::string_view name,
                  const std::filesystem::path& path);

}  // namespace am::stored
