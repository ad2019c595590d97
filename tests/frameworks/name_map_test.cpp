// Tests the tables that map a framework's tensor names and rows to those of the Hugging Face hub,
// and back: a reader finds each value where a writer stores it.
#include "am/frameworks/name_map.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "am/base/text.h"
#include "am/model/inventory.h"
#include "support/folders.h"

namespace am::frameworks {
namespace {

model::ModelConfig config_of(const std::string& name) {
  Diagnostics found;
  const auto config = model::load_config(cat(test::kSourceFolder, "/plans/models/", name), found);
  REQUIRE(config.has_value());
  return *config;
}

std::vector<int64_t> stored_rows(const RowMap& map) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < map.rows(); ++row) rows.push_back(map.stored(row));
  return rows;
}

// Checks that from_hub() maps every parameter of the model `name` to rows of a stored tensor, and
// that to_hub() maps the stored tensors back to the same parameters and rows.
void check_both_ways(const NameTable& table, const std::string& name) {
  const model::ModelConfig config = config_of(name);
  const NameMap names(table, config);
  INFO(table.format << ", " << name);
  REQUIRE(names.knows_model());
  std::map<std::string, int64_t> rows;                 // number of rows in use, by stored tensor
  std::map<std::string, std::pair<Shape, Shape>> all;  // dims before and after the dim of the rows
  const model::Inventory inventory = model::build_inventory(config);
  std::map<std::string, StoredPart> places;
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    const auto place = names.from_hub(parameter.name, parameter.shape[0]);
    INFO(parameter.name);
    REQUIRE(place.has_value());
    auto& [front, behind] = all[place->name];
    front.resize(place->index.size(), 0);
    for (size_t dim = 0; dim < front.size(); ++dim) {
      front[dim] = std::max(front[dim], place->index[dim] + 1);
    }
    behind.assign(parameter.shape.begin() + 1, parameter.shape.end());
    rows[place->name] += parameter.shape[0];
    places.emplace(parameter.name, *place);
  }
  size_t found = 0;
  for (const auto& [stored, dims] : all) {
    Shape shape = dims.first;
    shape.push_back(rows[stored] / numel(dims.first));
    shape.insert(shape.end(), dims.second.begin(), dims.second.end());
    const HubParts parts = names.to_hub(stored, shape);
    INFO(stored << " " << shape_text(shape) << " " << parts.problem);
    REQUIRE(!parts.parts.empty());
    for (const HubPart& part : parts.parts) {
      const auto place = places.find(part.name);
      const bool same = place != places.end() && place->second.name == stored &&
                        place->second.index == part.stored.index &&
                        place->second.rows == part.stored.rows;
      if (!same) FAIL(part.name);
      ++found;
    }
  }
  CHECK(found == places.size());
}

}  // namespace

TEST_CASE("every parameter of a model has its place in a framework's checkpoint") {
  for (const char* name : {"llama-3.1-8b", "mistral-7b-v0.3", "qwen3-8b", "qwen3-30b-a3b"}) {
    check_both_ways(torchtitan_table(), name);
  }
  check_both_ways(torchtitan_table(), "deepseek-v3");
  for (const char* name :
       {"llama-3.1-8b", "qwen2.5-7b", "qwen3-8b", "olmo-2-1124-7b", "gemma-3-1b-pt"}) {
    check_both_ways(olmo_table(), name);
  }
  for (const char* name : {"llama-3.1-8b", "mistral-7b-v0.3", "qwen2.5-7b", "qwen3-8b",
                           "qwen3-30b-a3b", "mixtral-8x7b-v0.1", "qwen2-57b-a14b"}) {
    check_both_ways(megatron_table(), name);
    check_both_ways(megatron_fsdp_table(), name);
  }
}

TEST_CASE("rows of other orders") {
  // In each head of width 6, rows i and i + 3 are stored next to each other.
  const RowMap pairs = rows_of_pairs(2, 6);
  CHECK(stored_rows(pairs) == std::vector<int64_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11});
  const RowMap groups = rows_of_groups({.groups = 2, .stride = 4, .first = 1, .count = 2});
  CHECK(stored_rows(groups) == std::vector<int64_t>{1, 2, 5, 6});
  CHECK(stored_rows(row_range(3, 2)) == std::vector<int64_t>{3, 4});

  // For any range of rows, the pieces contain each row once, and each stored row lies in the span
  // of its piece. For any range of stored rows, held_in() returns the rows that are stored there.
  for (const RowMap& map : {pairs, groups, row_range(3, 9), rows_of_pairs(3, 2),
                            rows_of_groups({.groups = 3, .stride = 5, .first = 0, .count = 5})}) {
    for (int64_t begin = 0; begin < map.rows(); ++begin) {
      for (int64_t size = 1; size <= map.rows() - begin; ++size) {
        int64_t next = begin;
        for (const RowPiece& piece : map.pieces({begin, size})) {
          CHECK(piece.rows.offset == next);
          next += piece.rows.size;
          for (int64_t i = 0; i < piece.rows.size; ++i) {
            const int64_t at = map.stored(piece.rows.offset + i) - piece.span.offset;
            CHECK((at >= 0 && at < piece.span.size));
            if (piece.in_order) CHECK(at == i);
          }
        }
        CHECK(next == begin + size);
      }
    }
    for (int64_t begin = 0; begin < 14; ++begin) {
      for (int64_t size = 1; size < 8; ++size) {
        std::set<int64_t> held;
        for (const mesh::Extent& extent : map.held_in({begin, size})) {
          for (int64_t i = 0; i < extent.size; ++i) held.insert(extent.offset + i);
        }
        std::set<int64_t> expected;
        for (int64_t row = 0; row < map.rows(); ++row) {
          const int64_t at = map.stored(row);
          if (at >= begin && at < begin + size) expected.insert(row);
        }
        CHECK(held == expected);
      }
    }
  }
}

TEST_CASE("numbers of names") {
  CHECK((match_name("layers.#.w", "layers.12.w") == NameNumbers{12}));
  CHECK((match_name("layers.#.experts.@.w", "layers.3.experts.w") == NameNumbers{3, std::nullopt}));
  CHECK((match_name("layers.#.experts.@.w", "layers.experts.w") ==
         NameNumbers{std::nullopt, std::nullopt}));
  CHECK((match_name("fc.weight#_w", "fc.weight7_w") == NameNumbers{7}));
  for (const char* name : {"layers..w", "layers.x.w", "layers.1.w.", "layers.1", "layers.01.w",
                           "layers.-1.w", "layers.12345678901234567890.w", "", "layers.1.1.w"}) {
    CHECK_FALSE(match_name("layers.#.w", name).has_value());
  }
  CHECK_FALSE(match_name("fc.weight#_w", "fc.weight_w").has_value());
  CHECK(fill_name("layers.#.experts.@.w1", {3, 4}) == "layers.3.experts.w1");
}

TEST_CASE("shapes that are not the config's") {
  const NameMap dense(megatron_table(), config_of("llama-3.1-8b"));
  const auto problem = [&](const char* name, const Shape& shape) {
    const HubParts found = dense.to_hub(name, shape);
    CHECK(found.parts.empty());
    return found.problem;
  };
  CHECK(problem("decoder.layers.0.self_attention.linear_qkv.weight", {6143, 4096})
            .find("requires 6144 rows") != std::string::npos);
  CHECK(problem("decoder.layers.self_attention.linear_qkv.weight", {31, 6144, 4096})
            .find("requires 32 in dim 0") != std::string::npos);
  CHECK(!problem("decoder.layers.self_attention.linear_qkv.weight", {32}).empty());
  CHECK(!problem("decoder.layers.0.self_attention.linear_qkv.weight", {}).empty());
  CHECK(!problem("decoder.layers.0.mlp.linear_fc1.weight", {7, 4096}).empty());
  CHECK(!problem("decoder.layers.0.mlp.linear_fc1.weight", {0, 4096}).empty());
  CHECK(!problem("output_layer.weight", {100, 4096}).empty());
  CHECK(problem("decoder.layers.0.mlp.experts.experts.linear_fc1.weight", {0, 8, 8}).empty());
  const NameMap experts(megatron_table(), config_of("qwen3-30b-a3b"));
  CHECK(!experts.to_hub("decoder.layers.0.mlp.experts.experts.linear_fc1.weight", {0, 8, 8})
             .problem.empty());
  CHECK(experts.to_hub("decoder.layers.mlp.experts.experts.linear_fc2.weight", {48, 128, 8, 8})
            .parts.size() == 48 * 128);
}

}  // namespace am::frameworks
