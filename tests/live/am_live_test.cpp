// Tests what am_live.h's functions refuse.
#include "am/live/am_live.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

TEST_CASE("a placement names a dim of its tensor") {
  std::vector<float> data(6);
  const std::vector<int64_t> shape = {2, 3};
  am_live_options options = {};
  options.size = sizeof options;
  options.world_size = 1;
  options.device = -1;
  for (const std::string placement : {"tp:S-1", "tp:S2", "tp:S4294967296", "tp:S", "tp:X", "tp"}) {
    am_live_tensor tensor = {};
    tensor.name = "w";
    tensor.data = data.data();
    tensor.dtype = "float32";
    tensor.dims = 2;
    tensor.device = -1;
    tensor.shape = shape.data();
    tensor.placements = placement.c_str();
    INFO(placement);
    am_live* const live = am_live_open(&options, &tensor, 1);
    CHECK(live == nullptr);
    CHECK_THAT(am_live_error(),
               Catch::Contains("`" + placement + "` is not a placement of a tensor with 2 dims"));
    if (live != nullptr) am_live_close(live, nullptr);
  }
}
