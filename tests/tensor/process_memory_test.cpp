#include "am/tensor/process_memory.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace am::tensor;

TEST_CASE("memory that is touched shows, and the peak stays") {
  const int64_t before = resident_bytes();
  REQUIRE(before > 0);
  constexpr int64_t kBytes = int64_t{64} << 20;
  {
    std::vector<char> block(kBytes, 1);
    CHECK(block[kBytes / 2] == 1);
    CHECK(resident_bytes() > before + kBytes / 2);
  }
  CHECK(peak_resident_bytes() > before + kBytes / 2);
  CHECK(peak_resident_bytes() >= resident_bytes());
}
