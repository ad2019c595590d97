// Named tensors at rest, readable box by box: Hugging Face safetensors (a file, a folder, an index
// over several files), folders of torch.distributed.checkpoint, files of torch.save, and am-run's
// own checkpoints.
//
//   auto source = open_tensor_source("checkpoints/step-100");
//   std::vector<float> rows(512 * 4096);   // source->find(..)->dtype is kFloat32
//   source->read("model.embed_tokens.weight", {{1024, 0}, {512, 4096}},
//                {std::as_writable_bytes(std::span(rows)).data(), {4096, 1}});
//
// Into libtorch's tensors of any dtype: checkpoint/read_tensor.h.
//
// Data is mapped, not read: a rank touches the pages of its own shard only.
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

// A part of a tensor in one file. `rank` is the rank that wrote it, 0 where files are not by rank.
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

// What is wrong with stored files: `where` is a tensor, or a file in the folder.
struct StoredProblem {
  std::string where;
  std::string what;
};

// What opening does about files that are missing, cut off or of another save. What is read is
// checked either way.
//   kRefused   it throws, where it can be seen by then
//   kListed    it opens what is there; TensorSource::damage() says what is not
enum class Damage { kRefused, kListed };

// What a source that is looked through from end to end calls.
struct VerifyCalls {
  std::function<void(StoredProblem)> found;
  // Between blocks of a few MiB; what it throws ends the look. May be empty.
  std::function<void()> between;
  // Of a block that was looked at. May be empty.
  std::function<void(int64_t bytes)> saw = {};
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // Who has written it: "huggingface", "dcp", "torch", "automesh", or one of
  // dialects/framework_folder.h.
  virtual std::string format() const = 0;
  // What is worth knowing of its names and rows; may be empty.
  virtual std::string note() const { return {}; }
  virtual std::filesystem::path path() const = 0;
  // The model's parameters, in natural order of their names.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  // Optimizer state, keyed "optim.state.NAME.exp_avg", and tensors of a trainer's that are no
  // parameters, in natural order too; empty for a Hugging Face folder.
  virtual const std::vector<StoredTensor>& optimizer_tensors() const = 0;
  // Names of what is stored beside tensors: numbers, texts, and whatever else Python pickles.
  virtual std::vector<std::string> values() const { return {}; }
  // Shows what values() names; false where there is none of that name.
  using SeeValue = std::function<void(const formats::PickleValue&)>;
  virtual bool see_value(std::string_view name, const SeeValue& see) const;
  // Of training, where the files say so.
  virtual std::optional<int64_t> step() const { return std::nullopt; }
  // Files that are missing, cut off or of another save, as far as names and sizes tell: what lies
  // in them cannot be read, and tensors that only a missing file names are not listed.
  virtual std::vector<StoredProblem> damage() const { return {}; }
  // Null when there is none of that name.
  const StoredTensor* find(std::string_view name) const;
  // Copies the box of the named tensor, elements as they are stored. The box lies inside the
  // tensor. Throws Error(kFormat) when the tensor is not there or its files are not as they were.
  virtual void read(std::string_view name, const mesh::Box& box, const Destination& out) const = 0;
  // Shows the elements of the box where they lie, without a copy; false, and nothing is shown,
  // where they do not lie together in memory. Throws as read, also after they were shown: then they
  // were not the file's.
  using SeeBytes = std::function<void(std::span<const std::byte>)>;
  virtual bool see(std::string_view /*name*/, const mesh::Box& /*box*/,
                   const SeeBytes& /*see*/) const {
    return false;
  }
  // A hint that the box is read next: its pages are fetched, and the call waits for them. From any
  // thread, beside read().
  virtual void will_read(std::string_view /*name*/, const mesh::Box& /*box*/) const {}
  // The model's config.json beside the weights; empty when there is none.
  virtual std::filesystem::path config_file() const = 0;
  // The files that hold the tensors.
  virtual std::vector<std::filesystem::path> data_files() const { return {path()}; }
  // The one that holds a tensor's shard of this number; empty where that is not known.
  virtual std::filesystem::path file_of(const StoredTensor& tensor, size_t shard) const;
  // Checksums of the values, stored with them: of each shard in turn those of its pieces of 16 MiB.
  // Empty where there are none.
  virtual std::vector<uint32_t> checksums(const StoredTensor& /*tensor*/) const { return {}; }
  // Looks through all that is stored and tells each problem once, holding one block at a time.
  // Whether the parts make up the tensors was seen when the source was opened. Here: every tensor
  // is read part by part.
  virtual void verify(const VerifyCalls& calls) const;
};

// What is stored of all; of a source, of optimizer states too.
int64_t bytes_of(const std::vector<StoredTensor>& tensors);
int64_t bytes_of(const TensorSource& source);

// An error of `source`'s as a problem: without the folder's path in front.
StoredProblem as_problem(const TensorSource& source, std::string where,
                         const std::exception& error);

// An error of a file in `folder` as a problem of it.
StoredProblem file_problem(const std::filesystem::path& folder, const std::string& file,
                           const std::exception& error);

[[noreturn]] void no_tensor(const std::filesystem::path& path, std::string_view name);
// What a source has under a tensor's name. Throws Error(kFormat), which names `path`, where that is
// nothing.
template <typename Places>
const typename Places::mapped_type& place_in(const Places& places, std::string_view name,
                                             const std::filesystem::path& path) {
  const auto found = places.find(name);
  if (found == places.end()) no_tensor(path, name);
  return found->second;
}

// Why the shards of a tensor are no partition of it; nothing: they are.
std::optional<std::string> why_not_covered(const StoredTensor& tensor);
// Throws Error(kFormat) then; `path` is named.
void require_covered(const StoredTensor& tensor, const std::filesystem::path& path);

// Throws Error(kFormat), which names `path`, where `parts` do not hold the box of a tensor once.
void require_held(const std::vector<mesh::Box>& parts, const mesh::Box& box, std::string_view name,
                  const std::filesystem::path& path);

// True when the path is something that open_tensor_source can open.
bool is_tensor_source(const std::filesystem::path& path);
// True when open_tensor_source reads files of torch.save there.
bool is_pickled_source(const std::filesystem::path& path);
// Throws Error(kIo) for a missing path, Error(kFormat) for files that are neither, lying or, where
// damage is refused, truncated or missing.
std::unique_ptr<TensorSource> open_tensor_source(const std::filesystem::path& path,
                                                 Damage damage = Damage::kRefused);

}  // namespace am::stored
