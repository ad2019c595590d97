#include "am/tensor/redistribute.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/runtime/world.h"
#include "am/tensor/dtype.h"
#include "support/rank_check.h"

namespace am::tensor {

TEST_CASE("cutting and gathering uneven pieces gives the tensor back") {
  const int64_t rows = GENERATE(1, 3, 5, 8);
  const int64_t dim = GENERATE(0, 1, -1);
  runtime::run_ranks(3, [&](const runtime::World& world) {
    const runtime::Group group = world.make_group("all", {0, 1, 2});
    const Shape shape = dim == 0 ? Shape{rows, 2} : Shape{2, rows};
    const at::Tensor full = at::arange(rows * 2, at::kFloat).view(shape);
    const at::Tensor mine = local_chunk(full, dim, group);
    RANK_CHECK(at::equal(all_gather_dim(mine, dim, rows, group), full));
    RANK_CHECK(at::equal(reduce_scatter_dim(full, dim, group), mine * 3));
  });
}

TEST_CASE("a box is a view of the right place") {
  const at::Tensor part = at::arange(12).view({3, 4});  // rows 2-4, columns 10-13 of a larger one
  const at::Tensor box = view_box(part, {2, 10}, {{3, 11}, {2, 2}});
  CHECK(at::equal(box, at::tensor({5, 6, 9, 10}).view({2, 2})));
  CHECK_THROWS_AS(view_box(part, {2, 10}, {{1, 10}, {1, 1}}), Error);
}

TEST_CASE("dtype names go both ways") {
  for (const char* name : {"float32", "bfloat16", "float16"}) {
    CHECK(dtype_name(parse_dtype(name)) == name);
    CHECK(scalar_type(stored_dtype(parse_dtype(name))) == parse_dtype(name));
  }
  CHECK_THROWS_AS(parse_dtype("float3"), Error);
  CHECK_THROWS_AS(stored_dtype(at::kQInt8), Error);
}

}  // namespace am::tensor
