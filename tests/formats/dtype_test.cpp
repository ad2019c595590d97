#include "am/formats/dtype.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/formats/safetensors.h"
#include "am/formats/torch_archive.h"

namespace am::formats {

TEST_CASE("dtypes have the names and sizes of both formats") {
  for (int i = 0; i <= static_cast<int>(Dtype::kComplex128); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    CHECK(dtype_of_torch(torch_name(dtype)) == dtype);
    CHECK(torch_dtype_size(torch_name(dtype)) == dtype_size(dtype));
    if (dtype == Dtype::kComplex128) continue;
    CHECK(dtype_of_safetensors(safetensors_name(dtype)) == dtype);
    CHECK(safetensors_dtype_size(safetensors_name(dtype)) == dtype_size(dtype));
  }
  CHECK(dtype_size(Dtype::kBFloat16) == 2);
  CHECK_THROWS_AS(safetensors_name(Dtype::kComplex128), Error);
  CHECK_THROWS_AS(dtype_of_safetensors("F4"), Error);
  CHECK_THROWS_AS(dtype_of_safetensors(""), Error);
  CHECK_THROWS_AS(dtype_of_torch("float3"), Error);
}

}  // namespace am::formats
