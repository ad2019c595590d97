// What a session looks into, by names alone: which parameters there are, in what shapes, and who
// holds which part.
//
// The seam of am-repl's commands, without a tensor; values/parameter_view.h adds values. There is
// one a rank; members marked *collective* are called on every rank with the same arguments, and a
// world of one needs no peers for them.
//
//   StoredHoldings   stored_holdings.h          tensors at rest; one process
//   StoredView       values/stored_view.h       the same with their values
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

// A rank's part of a parameter.
using HeldShard = stored::StoredShard;

struct HeldParameter {
  std::string name;
  Shape shape;  // global
  formats::Dtype dtype = formats::Dtype::kFloat32;
  std::vector<std::pair<std::string, mesh::Placement>>
      placements;  // axis, how the parameter lies along it
  // By rank, which may have several; replicas too. The holdings have them.
  std::span<const HeldShard> shards;

  int64_t numel() const { return am::numel(shape); }
  int64_t bytes() const { return numel() * formats::dtype_size(dtype); }
};

// Called between the parts of long work, on every rank at the same places: throws when the user
// wants it to end. May be empty.
using Between = std::function<void()>;

// What cuts texts unless the user says otherwise.
struct DefaultTokenizer {
  std::string name;     // "bytes", or a tokenizer.json; empty: none is known
  std::string problem;  // why none is

  // Empty for bytes.
  std::filesystem::path path() const { return name == "bytes" ? std::string() : name; }
};

// What one rank holds.
struct HeldBytes {
  int64_t rank = 0;
  int64_t sharded = 0;    // of its shards
  int64_t unsharded = 0;  // of full tensors that exist beside them
  int64_t gradients = 0;
  int64_t optimizer = 0;  // of its states, where they are in memory
  int64_t model = 0;      // at rest: of the copy that loss, generate and grad compute with
};

class Holdings {
 public:
  virtual ~Holdings() = default;

  // For the prompt: "llama step-300 [dp_shard 2]".
  virtual std::string title() const = 0;
  // What `info` prints, in this order.
  virtual Json info() = 0;
  // In natural order of their names.
  virtual const std::vector<HeldParameter>& parameters() const = 0;
  // Tensors beside them, an optimizer's above all: "optim.state.NAME.exp_avg". In natural order
  // too; commands read them like parameters.
  virtual std::span<const HeldParameter> states() const { return {}; }
  // Names of what is stored beside tensors, in natural order: settings, counters, texts.
  virtual std::vector<std::string> value_names() const { return {}; }
  // One of them; null where there is none of that name.
  virtual Json value(std::string_view /*name*/) const { return nullptr; }
  virtual const mesh::MeshLayout& mesh() const = 0;
  // Which rank this is; a checkpoint at rest is looked into by rank 0 alone.
  virtual int64_t rank() const { return 0; }
  // Parameters lie in files: shards are those that were saved, of replicas the first.
  virtual bool at_rest() const { return false; }
  // Those files; null for a model that lives in ranks.
  virtual const stored::TensorSource* source() const { return nullptr; }
  // What is worth saying when a session begins; may be empty.
  virtual std::string note() const { return {}; }
  virtual DefaultTokenizer default_tokenizer() const = 0;

  // By rank. Collective.
  virtual std::vector<HeldBytes> held_bytes() = 0;

  // numbers [n] of each rank -> [ranks, n], by the ranks that work together. Collective.
  virtual std::vector<std::vector<int64_t>> gather_numbers(const std::vector<int64_t>& numbers) {
    return {numbers};
  }
};

}  // namespace am::inspect
