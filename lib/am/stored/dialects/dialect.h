// The names and rows that another framework's checkpoints have for a model's parameters, against
// the hub's: a table a framework, read both ways.
//
//   const Dialect titan(torchtitan_table(), config);
//   titan.to_hub("layers.3.attention.wq.weight", {64, 32}).parts.front();
//       // {"model.layers.3.self_attn.q_proj.weight", its rows in another order}
//   titan.from_hub("model.layers.3.self_attn.q_proj.weight", 64);
//       // the same place again: what a writer fills
//
// Names in a table have a `#` or `@` for each number. A writer puts the number of a `#` into the
// name, and makes a dim in front of the tensor of an `@`. A reader takes either for both:
//   decoder.layers.#.mlp.linear_fc2.weight    decoder.layers.7.mlp.linear_fc2.weight [hidden, ffn]
//                                             decoder.layers.mlp.linear_fc2.weight [layers, ...]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/model/config.h"
#include "am/stored/dialects/name_pattern.h"
#include "am/stored/dialects/row_map.h"

namespace am::stored {

// Which rows of the stored tensor are the hub's.
enum class Rows : uint8_t {
  kAll,
  kQueryPairs,  // with rotary pairs side by side
  kKeyPairs,
  kVocabulary,  // without the padding behind it
  kQuery,       // of a projection that has, for each group, its queries, its key and its value
  kKey,
  kValue,
  kFirstHalf,  // of gate and up in one matrix
  kSecondHalf,
};

struct NameRow {
  std::string_view hub;
  std::string_view stored;
  Rows rows = Rows::kAll;
  // Model types, separated by spaces, whose row this is; empty: all of the table's.
  std::string_view types = {};
};

struct DialectTable {
  std::string_view format;     // what TensorSource::format() says
  std::string_view framework;  // for messages
  std::string_view types;      // model types that it is for, separated by spaces
  std::vector<NameRow> rows;
  std::vector<std::string_view> trainers = {};  // stored names that are no model's for the hub
  bool state_before_name = false;  // "optim.state.exp_avg.NAME" for "optim.state.NAME.exp_avg"
};

// Where a stored tensor has what the hub has as a tensor of its own.
struct StoredPart {
  std::string name;
  Shape index;  // in the dims in front
  RowMap rows;  // of the next dim
};

struct HubPart {
  std::string name;
  StoredPart stored;
};

// What a stored tensor has of the hub's. No part: its name is not in the table, or its shape is not
// what the config asks for, and `problem` says so.
struct HubParts {
  std::vector<HubPart> parts;
  std::string problem;
};

class Dialect {
 public:
  // `table` must outlive this.
  Dialect(const DialectTable& table, model::ModelConfig config);

  const DialectTable& table() const { return table_; }
  // Whether the table is for models of the config's type.
  bool knows_model() const;
  HubParts to_hub(std::string_view stored, const Shape& shape) const;
  // Of names without a part: a trainer's own.
  bool is_trainers(std::string_view stored) const;
  // `rows`: the hub's tensor has so many. Nothing for a name that is not in the table.
  std::optional<StoredPart> from_hub(std::string_view hub, int64_t rows) const;

 private:
  // Rows that the stored tensor must have, and those of them that are the hub's.
  struct Cut {
    int64_t stored = 0;
    RowMap map;
  };
  Cut cut(Rows rows, int64_t stored_rows) const;
  bool is_of_model(const NameRow& row) const;
  HubParts parts(const NameRow& row, const NameNumbers& numbers, std::string_view stored,
                 const Shape& shape) const;

  const DialectTable& table_;
  model::ModelConfig config_;
};

// Of torchtitan's 0.2.1, OLMo-core's 3.0 and Megatron-core's model definitions.
const DialectTable& torchtitan_table();
const DialectTable& olmo_table();
const DialectTable& megatron_table();
const DialectTable& megatron_fsdp_table();

}  // namespace am::stored
