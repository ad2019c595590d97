// A strided map from rows of a hub tensor to rows of a stored tensor: row i, written as mixed-radix
// digits (digit_0, digit_1, ..), is stored row first + sum(digit_k * stride_k).
//
//   // The queries of a fused projection: the first 32 of each of 2 groups of 48 rows.
//   const RowMap queries = rows_of_groups({.groups = 2, .stride = 48, .first = 0, .count = 32});
//   queries.rows();        // 64
//   queries.stored(33);    // 49
//
// A reader reads stored row stored(i) as row i; a writer writes row i to stored row stored(i). The
// map also applies to the optimizer's moments of the parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::frameworks {

// Rows that are read together. `span` contains their stored rows. If `in_order`, the stored rows
// are exactly the span in this order and need no rearrangement.
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
  std::vector<Digit> digits;  // slowest first; empty: the identity, for any number of rows

  bool is_whole() const { return digits.empty(); }
  int64_t rows() const;
  int64_t stored(int64_t row) const;
  // Splits rows [rows.offset, + size) where stored rows are not contiguous; a piece of rearranged
  // rows is at most about a thousand rows, or one head.
  std::vector<RowPiece> pieces(const mesh::Extent& rows) const;
  // Returns the rows whose stored rows are in `stored_rows`, ascending.
  std::vector<mesh::Extent> held_in(const mesh::Extent& stored_rows) const;
  bool operator==(const RowMap&) const = default;
};

RowMap row_range(int64_t first, int64_t count);
// The map for rotary pairs stored side by side: row h*d + j*d/2 + i is stored as h*d + 2i + j, for
// head h, half j, pair i.
RowMap rows_of_pairs(int64_t heads, int64_t head_dim);

struct RowGroups {
  int64_t groups = 0;
  int64_t stride = 0;  // stored rows per group
  int64_t first = 0;   // first stored row in each group
  int64_t count = 0;
};
RowMap rows_of_groups(const RowGroups& groups);

}  // namespace am::frameworks
