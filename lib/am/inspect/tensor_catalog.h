// The parameters of a session by name: shapes, dtypes, and which rank holds which part, without
// values.
//
// The interface through which am-repl's commands reach tensors; values/parameter_view.h adds access
// to values. There is one object per rank; members marked *collective* must be called on every rank
// with the same arguments. A world of one rank needs no communication.
//
//   StoredCatalog   stored_catalog.h          tensors at rest; one process
//   StoredView       values/stored_view.h       the same tensors with their values
//   ShardedView      values/sharded_view.h      a ParallelModel under a plan's layout
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

// A part of a parameter on one rank.
using HeldShard = stored::StoredShard;

struct HeldParameter {
  std::string name;
  Shape shape;  // global
  formats::Dtype dtype = formats::Dtype::kFloat32;
  std::vector<std::pair<std::string, mesh::Placement>>
      placements;  // axis, and the placement along it
  // Ordered by rank; a rank may have several. Includes replicas. Owned by the catalog.
  std::span<const HeldShard> shards;

  int64_t numel() const { return am::numel(shape); }
  int64_t bytes() const { return numel() * formats::dtype_size(dtype); }
};

// Callback between parts of long work, called on every rank at the same points; throws if the user
// interrupts. May be empty.
using Between = std::function<void()>;

// The tokenizer used unless the user chooses another.
struct DefaultTokenizer {
  std::string name;     // "bytes", or a tokenizer.json; empty: none is known
  std::string problem;  // reason if none is known

  // Path of the tokenizer.json; empty for bytes.
  std::filesystem::path path() const { return name == "bytes" ? std::string() : name; }
};

// Memory of one rank, in bytes.
struct HeldBytes {
  int64_t rank = 0;
  int64_t sharded = 0;    // shards
  int64_t unsharded = 0;  // full tensors beside the shards
  int64_t gradients = 0;
  int64_t optimizer = 0;  // optimizer states in memory
  int64_t model = 0;      // at rest: the copy of the model for loss, generate and grad
};

class TensorCatalog {
 public:
  virtual ~TensorCatalog() = default;

  // For the prompt: "llama step-300 [dp_shard 2]".
  virtual std::string title() const = 0;
  // Facts that `info` prints, in this order.
  virtual Json info() = 0;
  // Parameters in natural order of their names.
  virtual const std::vector<HeldParameter>& parameters() const = 0;
  // Tensors other than parameters, mainly of an optimizer: "optim.state.NAME.exp_avg". In natural
  // order; commands read them like parameters.
  virtual std::span<const HeldParameter> states() const { return {}; }
  // Names of stored values that are not tensors, in natural order: settings, counters, texts.
  virtual std::vector<std::string> value_names() const { return {}; }
  // Returns the non-tensor value of that name; null if there is none.
  virtual Json value(std::string_view /*name*/) const { return nullptr; }
  virtual const mesh::MeshLayout& mesh() const = 0;
  // This rank; 0 for a checkpoint at rest, which one process reads.
  virtual int64_t rank() const { return 0; }
  // Whether parameters are in files. HeldParameter::shards then lists the stored shards: of
  // replicas only the first.
  virtual bool at_rest() const { return false; }
  // The source of these files; null for a model in the ranks' memory.
  virtual const stored::TensorSource* source() const { return nullptr; }
  // A note to show when a session begins; may be empty.
  virtual std::string note() const { return {}; }
  virtual DefaultTokenizer default_tokenizer() const = 0;

  // Returns one entry per rank. Collective.
  virtual std::vector<HeldBytes> held_bytes() = 0;

  // Gathers `numbers` [n] of each rank that takes part -> [ranks, n]. Collective.
  virtual std::vector<std::vector<int64_t>> gather_numbers(const std::vector<int64_t>& numbers) {
    return {numbers};
  }
};

}  // namespace am::inspect
