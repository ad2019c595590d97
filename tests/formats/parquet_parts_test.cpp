// Tests parts of the Parquet reader: Snappy, encoded integers, schemas, and Thrift.
#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/formats/parquet/integers.h"
#include "am/formats/parquet/schema.h"
#include "am/formats/parquet/snappy.h"
#include "am/formats/parquet/thrift.h"
#include "support/message_of.h"
#include "support/parquet_bytes.h"

namespace am::formats::parquet {
namespace {

using namespace parquet_bytes;

std::string unpacked(const std::string& packed, size_t size) {
  std::string out(size, '?');
  unpack_snappy(view_of(packed), std::as_writable_bytes(std::span(out)));
  return out;
}

std::vector<uint32_t> runs(const std::string& bytes, int width, size_t count) {
  RunReader reader(view_of(bytes), width);
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(reader.next());
  return numbers;
}

// Returns a tree as text: the node's name, "?" if the node is optional, the node's definition level
// and the children. A list also shows the definition and repetition levels of its elements.
std::string shown(const SchemaNode& node) {
  std::string text = cat(node.name, node.optional ? "?" : "", ":", node.def);
  if (node.kind == SchemaNode::Kind::kList) {
    return cat(text, "[", node.element_def, ",", node.element_rep, " ",
               shown(node.children.front()), "]");
  }
  if (node.kind == SchemaNode::Kind::kValue) return text;
  text += "{";
  for (const SchemaNode& child : node.children) text += cat(" ", shown(child));
  return text + " }";
}

SchemaElement group(const std::string& name, Repetition repetition, int64_t children,
                    LogicalType logical = LogicalType::kNone) {
  return {std::nullopt, repetition, name, children, logical, ""};
}
SchemaElement value(const std::string& name, Repetition repetition) {
  return {PhysicalType::kInt32, repetition, name, 0, LogicalType::kNone, ""};
}

std::string schema_of(std::vector<SchemaElement> elements) {
  elements.insert(elements.begin(), group("root", Repetition::kRequired, 1));
  return shown(make_schema(elements).columns.front());
}

}  // namespace

TEST_CASE("Snappy: literals, and copies that overlap with themselves") {
  CHECK(unpacked({"\x05\x10hello"}, 5) == "hello");
  // A literal of 3 bytes, a copy of 4 bytes that begins 3 bytes back, and a copy of 61 bytes that
  // begins 2 bytes back.
  CHECK(unpacked({"\x44\x08"
                  "abc\x01\x03\xf2\x02\x00",
                  9 + 1},
                 68) == "abcabca" + [] {
    std::string rest;
    for (int i = 0; i < 61; ++i) rest += i % 2 == 0 ? 'c' : 'a';
    return rest;
  }());
  // A literal whose length is in a separate byte, and a copy whose offset has four bytes.
  const std::string literal(70, 'x');
  CHECK(unpacked("\x4a\xf0\x45" + literal + std::string("\x0f\x46\0\0\0", 5), 74) ==
        literal + "xxxx");
  CHECK(unpacked(std::string(1, '\0'), 0).empty());
}

TEST_CASE("Snappy: damaged bytes are errors") {
  const auto problem = [](const std::string& packed, size_t size) {
    return message_of([&] { unpacked(packed, size); });
  };
  CHECK(problem("\x05\x10hello", 6) == "the Snappy data's length differs from the page's");
  CHECK(problem("\x05\x10hell", 5) == "the bytes end early");
  CHECK(problem("\x05\x0chell", 5) == "the Snappy data end early");
  CHECK(problem("\x05\x14hello!", 5) == "the Snappy data are longer than they should be");
  CHECK(problem("\x08\x0c"
                "abcd\x01\x05",
                8) == "the Snappy data refer to bytes before the first");
  CHECK(problem({"\x08\x0c"
                 "abcd\x01\x00",
                 8},
                8) == "the Snappy data refer to bytes before the first");
  CHECK(problem("\x04\xfc\xff\xff\xff\xff", 4) == "the bytes end early");
}

TEST_CASE("runs of equal and of packed numbers") {
  CHECK(runs(varint(3 << 1) + "\x05", 3, 3) == std::vector<uint32_t>{5, 5, 5});
  // 0 to 7 in three bits each, as in Parquet's documentation.
  CHECK(runs("\x03\x88\xc6\xfa", 3, 8) == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(runs("\x03\x88\xc6", 3, 5) == std::vector<uint32_t>{0, 1, 2, 3, 4});  // ends early
  CHECK(runs("", 0, 3) == std::vector<uint32_t>{0, 0, 0});
  CHECK(runs(varint(1 << 1) + std::string("\0\0\0\x80", 4), 32, 1) ==
        std::vector<uint32_t>{0x80000000});
  CHECK_THROWS_AS(runs("\x03\x88\xc6", 3, 6), Error);
  CHECK_THROWS_AS(runs(std::string(20, '\0'), 3, 1), Error);  // every run is empty
  CHECK_THROWS_AS(runs(varint(uint64_t{1} << 40), 3, 1), Error);
}

TEST_CASE("differences of numbers") {
  const auto head = [](uint64_t block, uint64_t groups, uint64_t count, int64_t first) {
    return varint(block) + varint(groups) + varint(count) + zigzag(first);
  };
  // The numbers are 7, 5, 3, 1, 2, 3, 4, 5, with the differences -2 and 1. Each difference minus
  // the least one (-2), that is 0 or 3, is stored in two bits.
  const std::string group = head(128, 4, 8, 7) + zigzag(-2) + std::string("\x02\0\0\0", 4);
  const std::string bits = std::string("\xc0\x3f", 2) + std::string(6, '\0');
  const std::string whole = group + bits + "rest";
  DeltaReader reader(view_of(whole));
  std::vector<int64_t> numbers;
  for (int i = 0; i < 8; ++i) numbers.push_back(reader.next());
  CHECK(numbers == std::vector<int64_t>{7, 5, 3, 1, 2, 3, 4, 5});
  CHECK_THROWS_AS(reader.next(), Error);
  const Bytes behind = DeltaReader(view_of(whole)).skip_all();
  CHECK(std::string(as_text(behind)) == "rest");
  // Differences of zero bits occupy no bytes; the header contains their number.
  const std::string many = head(uint64_t{1} << 31, 1, uint64_t{1} << 30, 3) + zigzag(1) + '\0';
  DeltaReader steps(view_of(many));
  CHECK(steps.next() == 3);
  CHECK(steps.next() == 4);
  CHECK(DeltaReader(view_of(many)).skip_all().empty());
  for (const std::string& bad : {head(0, 1, 1, 1), head(128, 0, 1, 1), head(100, 3, 1, 1),
                                 head(uint64_t{1} << 40, 1, 1, 1), std::string("\x80")}) {
    CHECK_THROWS_AS(DeltaReader(view_of(bad)), Error);
  }
  const std::string wide = head(128, 4, 9, 7) + zigzag(0) + std::string("\x41\0\0\0", 4);
  CHECK_THROWS_WITH(DeltaReader(view_of(wide)).skip_all(), "a difference has more than 64 bits");
}

TEST_CASE("lists in the forms of old and new writers") {
  using enum Repetition;
  const auto list = [](const std::string& name, Repetition repetition) {
    return group(name, repetition, 1, LogicalType::kList);
  };
  CHECK(schema_of({value("a", kOptional)}) == "a?:1");
  CHECK(schema_of({list("a", kOptional), group("list", kRepeated, 1),
                   value("element", kOptional)}) == "a?:1[2,1 element?:3]");
  // The repeated node is the element.
  CHECK(schema_of({list("a", kOptional), value("item", kRepeated)}) == "a?:1[2,1 item:2]");
  CHECK(schema_of({list("a", kRequired), group("array", kRepeated, 1), value("x", kRequired)}) ==
        "a:0[1,1 array:1{ x:1 }]");
  CHECK(schema_of({list("a", kRequired), group("a_tuple", kRepeated, 1), value("x", kRequired)}) ==
        "a:0[1,1 a_tuple:1{ x:1 }]");
  CHECK(schema_of({list("a", kRequired), group("pair", kRepeated, 2), value("x", kRequired),
                   value("y", kOptional)}) == "a:0[1,1 pair:1{ x:1 y?:2 }]");
  CHECK(schema_of({list("a", kRequired), group("list", kRepeated, 1), value("x", kRepeated)}) ==
        "a:0[1,1 list:1{ x:1[2,2 x:2] }]");
  // A repeated node that no LIST group contains is a list, too.
  CHECK(schema_of({value("a", kRepeated)}) == "a:0[1,1 a:1]");
  CHECK(schema_of({group("a", kOptional, 1), value("x", kRepeated)}) == "a?:1{ x:1[2,1 x:2] }");
  CHECK(schema_of({list("a", kOptional), group("list", kRepeated, 1), list("element", kOptional),
                   group("list", kRepeated, 1), value("element", kRequired)}) ==
        "a?:1[2,1 element?:3[4,2 element:4]]");
}

TEST_CASE("fields of Thrift that are not known are skipped") {
  const std::string known = Struct().number(20, -3).bytes();
  // A boolean, a byte, a double, a text, a list of booleans, a map, a struct and a set.
  const std::string bytes = std::string("\x11\x13\x07\x17", 4) + std::string(8, 'd') +
                            "\x18\x02hi" + std::string("\x19\x21\x01\x02", 4) +
                            std::string("\x1b\x01\x58\x02\x01k", 6) +
                            std::string("\x1c\x15\x02\x00", 4) + std::string("\x1a\x15\x04", 3) +
                            std::string("\xc6\x05\x00", 3);
  ThriftReader reader(view_of(bytes));
  int64_t found = 0;
  std::vector<int64_t> ids;
  reader.fields([&](int64_t id, ThriftType type) {
    ids.push_back(id);
    if (id == 20) {
      found = reader.integer(type);
    } else {
      reader.skip(type);
    }
  });
  CHECK(found == -3);
  CHECK(ids == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 20});
  CHECK(reader.consumed() == bytes.size());
}

TEST_CASE("an id of Thrift that does not fit into 16 bits does not overflow") {
  const std::string bytes = "\x03" + zigzag(INT64_MAX) + "x\x13x" + '\0';
  ThriftReader reader(view_of(bytes));
  std::vector<int64_t> ids;
  reader.fields([&](int64_t id, ThriftType type) {
    ids.push_back(id);
    reader.skip(type);
  });
  CHECK(ids == std::vector<int64_t>{-1, 0});
}

}  // namespace am::formats::parquet
