// Declares the interface by which commands of am-repl access tensors: names, shapes, dtypes and the
// shards of each rank, but not values.
//
// The derived interface in values/parameter_view.h adds access to values. Each rank of a session
// has one TensorCatalog. Members marked "Collective" must be called on every rank at the same
// points; with one rank they do not communicate. Implementations:
//
//   StoredCatalog    stored_catalog.h           tensors of a checkpoint, read by one process
//   StoredView       values/stored_view.h       tensors of a checkpoint, with their values
//   ShardedView      values/sharded_view.h      a model in the memory of ranks, with values
//   ProgramView      values/program_view.h      tensors of another framework's program, with values
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/json.h"
#include "am/base/shape.h"
#include "am/formats/dtype.h"
#include "am/mesh/layout.h"
#include "am/mesh/shard.h"
#include "am/stored/tensor_source.h"

namespace am::inspect {

// Part of a parameter that one rank stores: a box of indices.
using HeldShard = stored::StoredShard;

// Description of a parameter, or of another tensor, for example an optimizer state.
struct HeldParameter {
  std::string name;
  Shape shape;  // global shape, before sharding
  formats::Dtype dtype = formats::Dtype::kFloat32;
  std::vector<std::pair<std::string, mesh::Placement>>
      placements;  // pairs of a group, for example "tp" or "dp_shard_cp", and the placement in it
  // Shards of all ranks, ordered by rank. Includes replicas, except for parameters in files
  // (TensorCatalog::at_rest()). A rank may have several shards. The catalog owns the shards.
  std::span<const HeldShard> shards;

  int64_t numel() const { return am::numel(shape); }
  int64_t bytes() const { return numel() * formats::dtype_size(dtype); }
};

// Callback that long work calls repeatedly, on every rank at the same points. The callback throws
// if the user has interrupted the command. May be empty.
using Between = std::function<void()>;

// Tokenizer that a session uses until the user selects another one.
struct DefaultTokenizer {
  std::string name;     // "bytes", or the path of a tokenizer; empty: none is known
  std::string problem;  // why no tokenizer is known, if `name` is empty

  // Returns the path of the tokenizer's file or folder; empty for "bytes".
  std::filesystem::path path() const { return name == "bytes" ? std::string() : name; }
};

// Memory of one rank, in bytes.
struct HeldBytes {
  int64_t rank = 0;
  int64_t sharded = 0;    // shards of parameters
  int64_t unsharded = 0;  // gathered full tensors, in addition to the shards
  int64_t gradients = 0;  // gradients of parameters
  int64_t optimizer = 0;  // optimizer states in memory
  int64_t model = 0;      // model that a command such as `loss` has loaded from a checkpoint
};

class TensorCatalog {
 public:
  virtual ~TensorCatalog() = default;

  // Returns the title for the prompt, for example "llama step-300 [dp_shard 2]".
  virtual std::string title() const = 0;
  // Returns the facts that the command `info` prints, in the order of its output.
  virtual Json info() = 0;
  // Returns all parameters in the natural order of their names.
  virtual const std::vector<HeldParameter>& parameters() const = 0;
  // Returns the tensors that are not parameters, in natural order of their names. Most are
  // optimizer states, for example "optim.state.NAME.exp_avg". Commands read them like parameters.
  virtual std::span<const HeldParameter> states() const { return {}; }
  // Returns the names of stored values that are not tensors (settings, counters, strings), in
  // natural order.
  virtual std::vector<std::string> value_names() const { return {}; }
  // Returns the stored value `name`, which is not a tensor; null if there is none.
  virtual Json value(std::string_view /*name*/) const { return nullptr; }
  virtual const mesh::MeshLayout& mesh() const = 0;
  // Returns the rank of this process; 0 for a checkpoint, which a single process reads.
  virtual int64_t rank() const { return 0; }
  // Returns whether the parameters are in files instead of the memory of ranks. If so,
  // HeldParameter::shards contains the stored shards, without replicas.
  virtual bool at_rest() const { return false; }
  // Returns the source that reads the files of the parameters; null for a model in the memory of
  // ranks.
  virtual const stored::TensorSource* source() const { return nullptr; }
  // Returns a note that is shown when a session begins; may be empty.
  virtual std::string note() const { return {}; }
  virtual DefaultTokenizer default_tokenizer() const = 0;

  // Returns the memory of each rank. Collective.
  virtual std::vector<HeldBytes> held_bytes() = 0;

  // Gathers the `numbers` of all ranks of the session, and returns one list for each rank.
  // Collective.
  virtual std::vector<std::vector<int64_t>> gather_numbers(const std::vector<int64_t>& numbers) {
    return {numbers};
  }
};

}  // namespace am::inspect
