#include "am/inspect/slice.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am::inspect;
using am::Shape;

namespace {

Selection pick(const char* text, const Shape& shape) {
  return select(parse_subscript(text).items, shape);
}

}  // namespace

TEST_CASE("a name without brackets is everything", "[inspect]") {
  const auto subscript = parse_subscript(" a.b.weight ");
  CHECK(subscript.name == "a.b.weight");
  CHECK(subscript.items.empty());
  CHECK(select({}, {3, 4}).box.shape == Shape{3, 4});
  CHECK(select({}, {}).shape.empty());
}

TEST_CASE("ranges and indices as in Python", "[inspect]") {
  auto s = pick("w[0:4, :8]", {97, 32});
  CHECK(s.box.offset == Shape{0, 0});
  CHECK(s.box.shape == Shape{4, 8});
  CHECK(s.shape == Shape{4, 8});
  s = pick("w[-1]", {97, 32});
  CHECK(s.box.offset == Shape{96, 0});
  CHECK(s.box.shape == Shape{1, 32});
  CHECK(s.shape == Shape{32});
  s = pick("w[ -4: , 3 ]", {97, 32});
  CHECK(s.box.offset == Shape{93, 3});
  CHECK(s.shape == Shape{4});
  CHECK(pick("w[3, 3]", {97, 32}).shape.empty());
}

TEST_CASE("ranges are clipped, empty ranges stay empty", "[inspect]") {
  CHECK(pick("w[90:1000]", {97}).shape == Shape{7});
  CHECK(pick("w[-1000:2]", {97}).shape == Shape{2});
  CHECK(pick("w[5:2]", {97}).shape == Shape{0});
  CHECK(pick("w[200:]", {97}).shape == Shape{0});
}

TEST_CASE("wrong slices are told apart", "[inspect]") {
  const auto message = [](const char* text, const Shape& shape) {
    try {
      pick(text, shape);
    } catch (const am::Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(message("w[1,2,3]", {4, 4}),
             Catch::Contains("the tensor has the shape [4, 4], but the slice has 3 indices"));
  CHECK_THAT(message("w[4]", {4}), Catch::Contains("outside of dim 0"));
  CHECK_THAT(message("w[-5]", {4}), Catch::Contains("outside of dim 0"));
  CHECK_THAT(message("w[0:4:2]", {4}), Catch::Contains("a slice with a step is not supported"));
  CHECK_THAT(message("w[a]", {4}), Catch::Contains("not an index"));
  CHECK_THAT(message("w[99999999999999999999]", {4}), Catch::Contains("not an index"));
  CHECK_THAT(message("w[]", {4}), Catch::Contains("missing"));
  CHECK_THAT(message("w[1", {4}), Catch::Contains("not closed"));
  CHECK_THAT(message("w[0]x", {4}), Catch::Contains("not closed"));
}
