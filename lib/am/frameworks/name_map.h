// Maps the names and rows of another framework's checkpoints to the hub's: one table per framework,
// used in both directions.
//
//   const NameMap titan(torchtitan_table(), config);
//   titan.to_hub("layers.3.attention.wq.weight", {64, 32}).parts.front();
//       // {"model.layers.3.self_attn.q_proj.weight", its rows in another order}
//   titan.from_hub("model.layers.3.self_attn.q_proj.weight", 64);
//       // the inverse: the part that a writer fills
//
// Names in a table have a `#` or `@` for each number. A writer writes the number of a `#` into the
// name, and turns the number of an `@` into an index of a leading dim of the tensor. A reader
// accepts both forms for either:
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

// The numbers of a name; nothing for a number that the name omits together with the following dot.
using NameNumbers = std::vector<std::optional<int64_t>>;

// Returns the number for each `#` and `@` of the pattern; nothing if the name does not match.
//   match_name("layers.#.experts.@.w1", "layers.7.experts.w1")   // {7, nothing}
std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name);

// Replaces each `#` by its number, and removes each `@` with the following dot.
std::string fill_name(std::string_view pattern, const std::vector<int64_t>& numbers);

// Returns whether the space-separated `list` contains the word.
bool has_word(std::string_view list, std::string_view word);

// Rows of the stored tensor that make up the hub's tensor.
enum class Rows : uint8_t {
  kAll,
  kQueryPairs,  // queries with the two values of each rotary pair adjacent
  kKeyPairs,
  kVocabulary,  // without padding rows at the end
  kQuery,       // queries in a fused projection: each KV group has queries, a key and a value
  kKey,
  kValue,
  kFirstHalf,  // the gate in a fused matrix of gate and up
  kSecondHalf,
};

struct NameRow {
  std::string_view hub;
  std::string_view stored;
  Rows rows = Rows::kAll;
  // Model types, separated by spaces, that the row applies to; empty: all of the table's.
  std::string_view types = {};
};

struct NameTable {
  std::string_view format;     // result of TensorSource::format()
  std::string_view framework;  // for messages
  std::string_view types;      // supported model types, separated by spaces
  std::vector<NameRow> rows;
  std::vector<std::string_view> trainers =
      {};                          // stored names of trainer state, which has no hub name
  bool state_before_name = false;  // "optim.state.exp_avg.NAME" for "optim.state.NAME.exp_avg"
};

// The place of one hub tensor inside a stored tensor.
struct StoredPart {
  std::string name;
  Shape index;  // in the stored tensor's leading dims (layers, experts)
  RowMap rows;  // in the first dim after these
};

struct HubPart {
  std::string name;
  StoredPart stored;
};

// The hub tensors that a stored tensor contains. `parts` is empty if the name is not in the table,
// or if the shape does not match the config; `problem` then describes the mismatch.
struct HubParts {
  std::vector<HubPart> parts;
  std::string problem;
};

class NameMap {
 public:
  // `table` must outlive this.
  NameMap(const NameTable& table, model::ModelConfig config);

  const NameTable& table() const { return table_; }
  // Returns whether the table supports models of the config's type.
  bool knows_model() const;
  HubParts to_hub(std::string_view stored, const Shape& shape) const;
  // Returns whether a tensor without a hub name is trainer state.
  bool is_trainers(std::string_view stored) const;
  // `rows`: number of rows of the hub's tensor. Returns nothing for a name that is not in the
  // table.
  std::optional<StoredPart> from_hub(std::string_view hub, int64_t rows) const;

 private:
  // The number of rows that the stored tensor must have, and the rows of the hub tensor in it.
  struct Cut {
    int64_t stored = 0;
    RowMap map;
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
