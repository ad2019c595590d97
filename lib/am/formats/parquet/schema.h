// The columns of a Parquet file as a tree of values, structs and lists.
//
// A file stores only the leaves of the tree: their values, and two levels for each value, from
// which the rows are assembled. The definition level is the number of optional and repeated nodes
// on the path that are present; if it is below that of a node, the node is null, or its list is
// empty. The repetition level is that of the list in which the value begins a new element; 0 begins
// a row.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "am/formats/parquet/metadata.h"

namespace am::formats::parquet {

// Kinds of values, which decide the JSON value.
enum class ValueKind { kBoolean, kSigned, kUnsigned, kFloat, kText, kJson };

struct SchemaNode {
  enum class Kind { kValue, kStruct, kList };

  Kind kind = Kind::kValue;
  std::string name;
  int def = 0;  // definition level at which the node is not null
  bool optional = false;
  // A list has one child, its element.
  int element_def = 0;  // definition level at which the list has an element
  int element_rep = 0;  // repetition level at which another element begins
  std::vector<SchemaNode> children;
  size_t first_leaf = 0;  // leaves [first_leaf, end_leaf) are below the node
  size_t end_leaf = 0;
  // Type that is not read, for messages: "a timestamp"; empty: the node can be read.
  std::string unreadable;
};

// A column that the file stores.
struct SchemaLeaf {
  std::string path;  // "messages.list.element.role"
  PhysicalType type = PhysicalType::kBoolean;
  ValueKind kind = ValueKind::kBoolean;
  int most_def = 0;  // highest definition level: the value is present
  int most_rep = 0;  // highest repetition level
};

struct Schema {
  std::vector<SchemaNode> columns;
  std::vector<SchemaLeaf> leaves;
};

// Throws Error(kFormat) if the elements are no tree, or a tree of more than 100 levels.
Schema make_schema(const std::vector<SchemaElement>& elements);

// Returns why a column cannot be read, for example `column "a.b" is a date`; empty if it can be.
std::string unreadable_part(const SchemaNode& column);

}  // namespace am::formats::parquet
