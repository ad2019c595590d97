// A strided map from rows of a tensor of the Hugging Face hub to rows of the tensor that a
// framework stores. Row i is written as mixed-radix digits (digit_0, digit_1, ..); it is stored in
// row first + sum(digit_k * stride_k).
//
//   // The queries of a fused projection: the first 32 of each of 2 groups of 48 rows.
//   const RowMap queries = rows_of_groups({.groups = 2, .stride = 48, .first = 0, .count = 32});
//   queries.rows();        // 64
//   queries.stored(33);    // 49
//
// A reader takes row i from the stored row stored(i); a writer writes row i there. The optimizer's
// moments have the same map as their parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::frameworks {

// Rows that are read together. `span`: range of stored rows that contains the stored rows of
// `rows`. `in_order`: the range contains nothing else, and the rows have the order that they have
// in `rows`, so they need no rearrangement.
struct RowPiece {
  mesh::Extent rows;
  mesh::Extent span;
  bool in_order = true;
};

struct RowMap {
  struct Digit {
    int64_t count = 0;
    int64_t stride = 0;
    bool operator==(const Digit&) const = default;
  };
  int64_t first = 0;
  // The digits, the one that changes slowest first. Empty: the identity, for any number of rows.
  std::vector<Digit> digits;

  bool is_whole() const { return digits.empty(); }
  int64_t rows() const;
  int64_t stored(int64_t row) const;
  // Splits a range of rows into pieces wherever the stored rows are not contiguous. A piece whose
  // rows must be rearranged has at most about a thousand rows, or those of one head.
  std::vector<RowPiece> pieces(const mesh::Extent& rows) const;
  // Returns the rows whose stored rows are in `stored_rows`, as ascending ranges.
  std::vector<mesh::Extent> held_in(const mesh::Extent& stored_rows) const;
  bool operator==(const RowMap&) const = default;
};

// Returns the map of `count` contiguous rows, which begin with stored row `first`.
RowMap row_range(int64_t first, int64_t count);
// Returns the map for a tensor in which the two rows of each rotary pair are adjacent: row
// h*d + j*d/2 + i is stored in row h*d + 2i + j, for head h of width d, half j of the head, and
// pair i.
RowMap rows_of_pairs(int64_t heads, int64_t head_dim);

struct RowGroups {
  int64_t groups = 0;
  int64_t stride = 0;  // number of stored rows per group
  int64_t first = 0;   // index within each group of the first of its rows that the map includes
  int64_t count = 0;   // number of rows of each group that the map includes
};
RowMap rows_of_groups(const RowGroups& groups);

}  // namespace am::frameworks
