// The columns of a Parquet file as a tree of values, structs and lists.
//
// A file stores only the leaves of the tree: their values, and two levels for each value, from
// which the rows are assembled. The definition level is the number of optional and repeated nodes
// on the value's path that are present. If it is below the level of a node on the path, this node
// is null, or its list is empty. The repetition level is the depth of the list in which the value
// begins a new element; level 0 means that the value begins a new row.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "am/formats/parquet/metadata.h"

namespace am::formats::parquet {

// Kinds of values. Each kind is converted to JSON in its own way.
enum class ValueKind { kBoolean, kSigned, kUnsigned, kFloat, kText, kJson };

struct SchemaNode {
  enum class Kind { kValue, kStruct, kList };

  Kind kind = Kind::kValue;
  std::string name;
  int def = 0;  // lowest definition level at which the node is not null
  bool optional = false;
  // A list has one child, its element.
  int element_def = 0;  // lowest definition level at which the list has an element
  int element_rep = 0;  // repetition level at which another element begins
  std::vector<SchemaNode> children;
  size_t first_leaf = 0;  // leaves [first_leaf, end_leaf) are below the node
  size_t end_leaf = 0;
  // Name of a type that is not supported, for messages: "a timestamp"; empty: the node can be read.
  std::string unreadable;
};

// A column that the file stores.
struct SchemaLeaf {
  std::string path;  // for example "messages.list.element.role"
  PhysicalType type = PhysicalType::kBoolean;
  ValueKind kind = ValueKind::kBoolean;
  int most_def = 0;  // highest definition level, at which the value is present
  int most_rep = 0;  // highest repetition level
};

struct Schema {
  std::vector<SchemaNode> columns;
  std::vector<SchemaLeaf> leaves;
};

// Builds the tree of columns. Throws Error(kFormat) if the elements do not form a tree, or if the
// tree has more than 100 levels.
Schema make_schema(const std::vector<SchemaElement>& elements);

// Returns why a column cannot be read, for example `column "a.b" is a date`; empty if it can be.
std::string unreadable_part(const SchemaNode& column);

}  // namespace am::formats::parquet
