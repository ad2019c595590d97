// Converts names and rows of tensors in another framework's checkpoints to those of the Hugging
// Face hub, and back. Each framework has a NameTable.
//
//   const NameMap titan(torchtitan_table(), config);
//   titan.to_hub("layers.3.attention.wq.weight", {64, 32}).parts.front();
//       // {"model.layers.3.self_attn.q_proj.weight", its rows in another order}
//   titan.from_hub("model.layers.3.self_attn.q_proj.weight", 64);
//       // the inverse: where a writer stores the hub's tensor
//
// Name patterns in a table contain a marker, `#` or `@`, for each layer or expert number. For `#`,
// a writer writes the number into the name. For `@`, a writer stacks the tensors of all layers or
// experts in one tensor; the number is then the index in a leading dim. A reader accepts both forms
// for `.#.` and `.@.`. Two stored names and shapes that match the pattern in the first column:
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

// The numbers in a name, in order. nullopt: the name omits the number and the dot behind it.
using NameNumbers = std::vector<std::optional<int64_t>>;

// Returns the numbers in the name at the positions of the pattern's `#` and `@`; nullopt if the
// name does not match the pattern.
//   match_name("layers.#.experts.@.w1", "layers.7.experts.w1")   // {7, nullopt}
std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name);

// Returns the name for a pattern: replaces each `#` by its number, and removes each `@` together
// with the dot behind it. `numbers`: one number for each `#` and `@`.
std::string fill_name(std::string_view pattern, const std::vector<int64_t>& numbers);

// Returns whether the space-separated `list` contains the word.
bool has_word(std::string_view list, std::string_view word);

// Rows of a stored tensor that form a tensor of the hub.
enum class Rows : uint8_t {
  kAll,
  // All rows of queries or keys, in another order: in the stored tensor, the two rows of each
  // rotary pair are adjacent.
  kQueryPairs,
  kKeyPairs,
  kVocabulary,  // all rows except padding rows at the end
  // The rows of queries, keys or values in a fused projection. For each KV group, the projection
  // has the queries, then the key, then the value.
  kQuery,
  kKey,
  kValue,
  kFirstHalf,   // the gate in a fused matrix of gate and up
  kSecondHalf,  // the up projection in a fused matrix of gate and up
};

// An entry of a NameTable: the patterns of a tensor's name on the hub and in the framework.
struct NameRow {
  std::string_view hub;
  std::string_view stored;
  Rows rows = Rows::kAll;
  // Model types to which this entry applies, separated by spaces; empty: all types of the table.
  std::string_view types = {};
};

struct NameTable {
  std::string_view format;     // result of TensorSource::format() for the framework's checkpoints
  std::string_view framework;  // the framework's name, for messages
  std::string_view types;      // supported model types, separated by spaces
  std::vector<NameRow> rows;
  // Name patterns of stored tensors that belong to the trainer, not to the model. These tensors
  // have no entry in `rows`.
  std::vector<std::string_view> trainers = {};
  // True if optimizer states are named "optim.state.exp_avg.NAME" instead of
  // "optim.state.NAME.exp_avg".
  bool state_before_name = false;
};

// The location of one hub tensor inside of a stored tensor.
struct StoredPart {
  std::string name;  // name of the stored tensor
  Shape index;       // indices in the leading dims, which count layers or experts
  RowMap rows;       // the rows, in the first dim after the leading dims
};

struct HubPart {
  std::string name;   // name of the hub tensor
  StoredPart stored;  // its location in the checkpoint
};

// The hub tensors inside of a stored tensor. `parts` is empty if the table does not contain the
// stored name, or if the shape does not match the model's config. In the second case, `problem`
// describes the mismatch.
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
  // Returns the hub tensors inside of the stored tensor with this name and shape.
  HubParts to_hub(std::string_view stored, const Shape& shape) const;
  // Returns whether a stored tensor without a hub name belongs to the trainer instead of the model
  // (NameTable::trainers).
  bool is_trainers(std::string_view stored) const;
  // Returns the location at which a writer stores a hub tensor; nullopt for a name that the table
  // does not contain. `rows`: number of rows of the hub tensor.
  std::optional<StoredPart> from_hub(std::string_view hub, int64_t rows) const;
  // Returns the stored names of a hub tensor, one for each entry of the table that matches the hub
  // tensor's name.
  std::vector<std::string> stored_names(std::string_view hub) const;

 private:
  struct Cut {
    int64_t stored = 0;  // number of rows that the stored tensor must have
    RowMap map;          // maps rows of the hub tensor to rows of the stored tensor
  };
  Cut cut(Rows rows, int64_t stored_rows) const;
  bool is_of_model(const NameRow& row) const;
  HubParts parts(const NameRow& row, const NameNumbers& numbers, std::string_view stored,
                 const Shape& shape) const;

  const NameTable& table_;
  model::ModelConfig config_;
};

// Return the name tables of torchtitan 0.2.1, of OLMo-core 3.0, and of Megatron-core's formats
// torch_dist and fsdp_dtensor.
const NameTable& torchtitan_table();
const NameTable& olmo_table();
const NameTable& megatron_table();
const NameTable& megatron_fsdp_table();

}  // namespace am::frameworks
