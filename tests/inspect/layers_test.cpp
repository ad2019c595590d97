#include "am/inspect/layers.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace am::inspect {
namespace {

std::vector<std::pair<std::string, std::vector<size_t>>> folded(
    const std::vector<std::string>& names, const std::vector<std::string>& texts = {}) {
  std::vector<NamedRow> rows;
  for (size_t i = 0; i < names.size(); ++i)
    rows.push_back({names[i], i < texts.size() ? texts[i] : ""});
  std::vector<std::pair<std::string, std::vector<size_t>>> out;
  for (const NamedRow& row : fold_numbers(rows)) out.emplace_back(row.name, row.members);
  return out;
}

}  // namespace

TEST_CASE("layers and experts share a row, which knows its members") {
  using Folded = std::vector<std::pair<std::string, std::vector<size_t>>>;
  CHECK(folded({"norm.weight"}) == Folded{{"norm.weight", {0}}});
  CHECK(folded({"layers.0.q", "layers.0.k", "layers.1.q", "layers.1.k", "head"}) ==
        Folded{{"layers.0-1.q", {0, 2}}, {"layers.0-1.k", {1, 3}}, {"head", {4}}});
  CHECK(folded({"layers.0.experts.0.w", "layers.0.experts.1.w", "layers.2.experts.0.w",
                "layers.2.experts.1.w"}) == Folded{{"layers.{0,2}.experts.0-1.w", {0, 2, 1, 3}}});
  CHECK(folded({"layers.3.experts.0.w", "layers.3.experts.1.w", "layers.3.q"}) ==
        Folded{{"layers.3.experts.0-1.w", {0, 1}}, {"layers.3.q", {2}}});
  // Rows with different texts stay apart.
  CHECK(folded({"layers.0.q", "layers.1.q", "layers.2.q"}, {"a", "b", "a"}) ==
        Folded{{"layers.{0,2}.q", {0, 2}}, {"layers.1.q", {1}}});
  CHECK(folded({"layers.0.experts.0.w", "layers.0.experts.1.w", "layers.1.experts.0.w"},
               {"a", "a", "b"}) ==
        Folded{{"layers.0.experts.0-1.w", {0, 1}}, {"layers.1.experts.0.w", {2}}});
}

}  // namespace am::inspect
