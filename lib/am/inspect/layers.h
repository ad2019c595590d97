// Finds the layer in the name of a parameter, and combines the rows of equal layers into one row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace am::inspect {

// Returns the name up to and including the first component that is a number, for example
// "model.layers.3". The last component does not count as a number. If the name contains no number,
// returns the name without its last component, for example "model.norm", or the whole name if it
// has no dot.
std::string layer_of(std::string_view name);

struct NamedRow {
  std::string name;
  std::string text;
  // In the results of the functions below: the indices of the rows that this row replaces.
  std::vector<size_t> members = {};
};
// Folds rows that have the same text and whose names differ only in the first number: one row, for
// example "model.layers.0-31.mlp.up_proj.weight", replaces them at the position of the first of
// these rows.
std::vector<NamedRow> fold_layers(const std::vector<NamedRow>& rows);
// Like fold_layers(), but also folds rows whose names differ in further numbers, for example in the
// index of the expert: "model.layers.0-31.mlp.experts.0-7.up_proj.weight".
std::vector<NamedRow> fold_numbers(const std::vector<NamedRow>& rows);

}  // namespace am::inspect
