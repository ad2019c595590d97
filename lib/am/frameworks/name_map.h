// Maps names and rows of tensors in another framework's checkpoints to those of the Hugging Face
// hub, and back. There is one table per framework.
//
//   const NameMap titan(torchtitan_table(), config);
//   titan.to_hub("layers.3.attention.wq.weight", {64, 32}).parts.front();
//       // {"model.layers.3.self_attn.q_proj.weight", its rows in another order}
//   titan.from_hub("model.layers.3.self_attn.q_proj.weight", 64);
//       // the inverse: where a writer stores the hub's tensor
//
// Names in a table have a `#` or `@` for each number. Where the table has `#`, a writer writes the
// number into the name. Where it has `@`, a writer stores the tensors of all numbers in one tensor,
// and the number is an index of a leading dim. A reader accepts both forms in both cases, for
// example for the first of these names:
//   decoder.layers.#.mlp.linear_fc2.weight    decoder.layers.7.mlp.linear_fc2.weight [hidden, ffn]
//                                             decoder.layers.mlp.linear_fc2.weight [layers, ...]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/frameworks/row_map.h"
#include "am/model/config.h"

namespace am::frameworks {

// The numbers in a name, in order; nullopt for a number that the name omits with its dot.
using NameNumbers = std::vector<std::optional<int64_t>>;

// Returns the number that each `#` and `@` of the pattern stands for; nullopt if the name does not
// match.
//   match_name("layers.#.experts.@.w1", "layers.7.experts.w1")   // {7, nothing}
std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name);

// Replaces each `#` by its number, and removes each `@` with the following dot.
std::string fill_name(std::string_view pattern, const std::vector<int64_t>& numbers);

// Returns whether the space-separated `list` contains the word.
bool has_word(std::string_view list, std::string_view word);

// The rows of the stored tensor that are the hub's tensor.
enum class Rows : uint8_t {
  kAll,
  // All rows of queries or keys, but in another order: the framework stores the two values of each
  // rotary pair in adjacent rows.
  kQueryPairs,
  kKeyPairs,
  kVocabulary,  // all but the padding rows at the end
  // The rows of queries, keys or values in a fused projection, which has for each KV group first
  // its queries, then its key and its value.
  kQuery,
  kKey,
  kValue,
  kFirstHalf,   // the gate in a fused matrix of gate and up
  kSecondHalf,  // the up projection in a fused matrix of gate and up
};

// A row of a NameTable: how one tensor is named on the hub and by the framework.
struct NameRow {
  std::string_view hub;
  std::string_view stored;
  Rows rows = Rows::kAll;
  // Model types that the row applies to, separated by spaces; empty: all types of the table.
  std::string_view types = {};
};

struct NameTable {
  std::string_view format;     // result of TensorSource::format() for these checkpoints
  std::string_view framework;  // the framework's name, for messages
  std::string_view types;      // supported model types, separated by spaces
  std::vector<NameRow> rows;
  // Stored names of tensors that belong to the trainer and have no name on the hub.
  std::vector<std::string_view> trainers = {};
  // The framework names optimizer states "optim.state.exp_avg.NAME" instead of
  // "optim.state.NAME.exp_avg".
  bool state_before_name = false;
};

// The place of one hub tensor inside a stored tensor.
struct StoredPart {
  std::string name;  // name of the stored tensor
  Shape index;       // index in its leading dims, which count layers or experts
  RowMap rows;       // rows in the first dim after the leading ones
};

struct HubPart {
  std::string name;   // name of the hub tensor
  StoredPart stored;  // where it is stored
};

// The hub tensors that a stored tensor contains. `parts` is empty if the name is not in the table,
// or if the shape does not match the model's config; only in the second case, `problem` describes
// the mismatch.
struct HubParts {
  std::vector<HubPart> parts;
  std::string problem;
};

class NameMap {
 public:
  // `table` must outlive the object.
  NameMap(const NameTable& table, model::ModelConfig config);

  const NameTable& table() const { return table_; }
  // Returns whether the table supports models of the config's type.
  bool knows_model() const;
  HubParts to_hub(std::string_view stored, const Shape& shape) const;
  // Returns whether a stored tensor belongs to the trainer (NameTable::trainers).
  bool is_trainers(std::string_view stored) const;
  // Returns where a hub tensor is stored; nullopt for a name that is not in the table. `rows`:
  // number of rows of the hub tensor.
  std::optional<StoredPart> from_hub(std::string_view hub, int64_t rows) const;

 private:
  struct Cut {
    int64_t stored = 0;  // number of rows that the stored tensor must have
    RowMap map;          // the rows of the hub tensor in it
  };
  Cut cut(Rows rows, int64_t stored_rows) const;
  bool is_of_model(const NameRow& row) const;
  HubParts parts(const NameRow& row, const NameNumbers& numbers, std::string_view stored,
                 const Shape& shape) const;

  const NameTable& table_;
  model::ModelConfig config_;
};

// Tables of torchtitan 0.2.1, OLMo-core 3.0 and Megatron-core's model definitions.
const NameTable& torchtitan_table();
const NameTable& olmo_table();
const NameTable& megatron_table();
const NameTable& megatron_fsdp_table();

}  // namespace am::frameworks
