#include "am/run_folder/writers.h"

#include <catch2/catch.hpp>

namespace am::run_folder {

TEST_CASE("what several ranks hold is written by each about as much") {
  std::vector<HeldBox> boxes = {{100, 1, ""},  {60, 2, "dp"}, {50, 2, "dp"},
                                {40, 2, "dp"}, {30, 2, "dp"}, {7, 4, "dp and tp"}};
  CHECK(choose_writers(boxes) == std::vector<int64_t>{0, 0, 1, 1, 0, 0});
  for (int i = 0; i < 3; ++i) boxes.push_back({7, 4, "dp and tp"});
  const auto writers = choose_writers(boxes);
  CHECK(std::vector<int64_t>(writers.end() - 4, writers.end()) == std::vector<int64_t>{0, 1, 2, 3});
}

}  // namespace am::run_folder
