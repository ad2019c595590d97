// Maps rows of a tensor on the Hugging Face hub to rows of the tensor that a framework stores. Row
// i of the hub's tensor is written as mixed-radix digits (digit_0, digit_1, ..); its stored row is
// first + sum(digit_k * stride_k).
//
//   // The queries of a fused projection: the first 32 of each of 2 groups of 48 rows.
//   const RowMap queries = rows_of_groups({.groups = 2, .stride = 48, .first = 0, .count = 32});
//   queries.rows();        // 64
//   queries.stored(33);    // 49
//
// A reader copies stored row stored(i) to row i of the hub's tensor, and a writer copies row i to
// stored row stored(i). Optimizer states have the same map as their parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::frameworks {

// Rows of the hub's tensor that are read together. `rows`: their range in the hub's tensor. `span`:
// the smallest range of stored rows that contains them. `in_order`: `span` contains only these
// rows, in the hub's order, so no row needs to be moved.
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
  // Digits of a row number; the first digit changes slowest. Empty: the identity, for any number of
  // rows.
  std::vector<Digit> digits;

  // Returns whether the map is the identity. The four functions below must not be called for the
  // identity.
  bool is_whole() const { return digits.empty(); }
  // Returns the number of rows of the hub's tensor.
  int64_t rows() const;
  // Returns the stored row of the hub's row `row`.
  int64_t stored(int64_t row) const;
  // Splits a range of the hub's rows into pieces that are read together. If the rows keep their
  // order, a piece is a contiguous run of stored rows. Otherwise, a piece contains the rows of one
  // head, or of several heads with at most 1024 rows together.
  std::vector<RowPiece> pieces(const mesh::Extent& rows) const;
  // Returns the rows of the hub's tensor that are stored in `stored_rows`, as ascending ranges.
  std::vector<mesh::Extent> held_in(const mesh::Extent& stored_rows) const;
  bool operator==(const RowMap&) const = default;
};

// Returns the map for a tensor whose `count` rows are stored contiguously from stored row `first`
// on.
RowMap row_range(int64_t first, int64_t count);
// Returns the map for a stored tensor in which the two rows of each rotary pair are adjacent. Row
// h*d + j*d/2 + i (head h of width d, half j of the head, pair i) is stored in row h*d + 2i + j.
RowMap rows_of_pairs(int64_t heads, int64_t head_dim);

// A stored tensor that consists of groups of rows. The hub's tensor includes rows `first` to
// `first + count - 1` of each group.
struct RowGroups {
  int64_t groups = 0;
  int64_t stride = 0;  // number of stored rows per group
  int64_t first = 0;   // index of the first included row of each group
  int64_t count = 0;   // number of included rows of each group
};
// Returns the map for a hub tensor that consists of the included rows of all groups, in order.
RowMap rows_of_groups(const RowGroups& groups);

}  // namespace am::frameworks
