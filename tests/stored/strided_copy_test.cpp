#include "am/stored/strided_copy.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

namespace am::stored {

namespace {

// Copies a box element by element, as a reference for copy_box().
void copy_slowly(const std::vector<int>& from, const Shape& strides, const mesh::Box& box,
                 std::vector<int>& out, size_t first, const Shape& out_strides) {
  for (int64_t i = 0; i < box.numel(); ++i) {
    int64_t rest = i, source = 0, place = 0;
    for (size_t dim = box.shape.size(); dim-- > 0;) {
      const int64_t index = rest % box.shape[dim];
      rest /= box.shape[dim];
      source += (box.offset[dim] + index) * strides[dim];
      place += index * out_strides[dim];
    }
    out[first + static_cast<size_t>(place)] = from[static_cast<size_t>(source)];
  }
}

}  // namespace

TEST_CASE("a box is copied whatever lies together") {
  std::vector<int> from(4 * 5 * 6);
  std::iota(from.begin(), from.end(), 1);
  const Shape dense = dense_strides({4, 5, 6});
  REQUIRE(dense == Shape{30, 6, 1});
  const Shape transposed = {1, 4, 20};  // column-major strides of [4, 5, 6]
  const std::vector<mesh::Box> boxes = {{{0, 0, 0}, {4, 5, 6}}, {{1, 2, 0}, {2, 3, 6}},
                                        {{0, 1, 2}, {4, 1, 3}}, {{3, 0, 5}, {1, 5, 1}},
                                        {{2, 2, 2}, {1, 1, 1}}, {{1, 1, 1}, {2, 0, 3}}};
  for (const Shape& strides : {dense, transposed}) {
    for (const mesh::Box& box : boxes) {
      for (const Shape& to : {dense_strides(box.shape), dense, transposed, Shape{1, 2, 40}}) {
        std::vector<int> got(300, -1), wanted = got;
        copy_slowly(from, strides, box, wanted, 0, to);
        copy_box(std::as_bytes(std::span(from)), strides, box, sizeof(int),
                 {std::as_writable_bytes(std::span(got)).data(), to});
        CHECK(got == wanted);
      }
    }
  }
}

TEST_CASE("a part of a destination, and one with dims in front") {
  std::vector<int> got(12, 0);
  const std::vector<int> from = {7, 8};
  const Destination whole{std::as_writable_bytes(std::span(got)).data(), {4, 1}};
  copy_box(std::as_bytes(std::span(from)), {1, 1, 1}, {{0, 0, 0}, {1, 1, 2}}, sizeof(int),
           with_dims_in_front(whole.part({1, 2}, sizeof(int)), 1));
  CHECK(got == std::vector<int>{0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0});
  copy_box(std::as_bytes(std::span(from)), {}, {{}, {}}, sizeof(int), {whole.data, {}});
  CHECK(got.front() == 7);
}

}  // namespace am::stored
