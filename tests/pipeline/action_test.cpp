#include "am/pipeline/action.h"

#include <catch2/catch.hpp>
#include <vector>

using am::pipeline::Action;
using am::pipeline::Kind;
using am::pipeline::parse_slot;
using am::pipeline::Slot;

namespace {

std::string reason(const std::string& text) {
  std::string why;
  CHECK_FALSE(parse_slot(text, &why).has_value());
  return why;
}

}  // namespace

TEST_CASE("actions are read and written in PyTorch's spelling", "[schedule]") {
  for (const char* text :
       {"2F0", "12B34", "0I1", "7W2", "1UNSHARD", "1RESHARD", "3REDUCE_GRAD", "1SEND_F0",
        "1RECV_F9", "2SEND_B3", "2RECV_B4", "", "(2F1;5B0)OVERLAP_F_B", "(2F1;5I0)OVERLAP_F_B"}) {
    INFO(text);
    const auto slot = parse_slot(text);
    REQUIRE(slot.has_value());
    CHECK(to_string(*slot) == text);
  }
  CHECK(*parse_slot(" 2F13 ") == Slot(Action{Kind::kForward, 2, 13}));
  CHECK(parse_slot("  ")->is_bubble());
  CHECK(*parse_slot("( 0F3 ; 3B1 )OVERLAP_F_B") ==
        Slot(Action{Kind::kForward, 0, 3}, Action{Kind::kBackward, 3, 1}));
  CHECK(parse_slot("2147483647F0").has_value());
}

TEST_CASE("what is not an action is refused with its reason", "[schedule]") {
  for (const char* text : {"F0",
                           "2",
                           "2X0",
                           "2f0",
                           "x",
                           "-1F0",
                           "2 F 0",
                           "2F0B1",
                           "2F-1",
                           "2F+1",
                           "2F0.5",
                           "99999999999F0",
                           "0F99999999999",
                           "(0F0;1B0)",
                           "(0F0;1B0)OVER",
                           "(0F0)OVERLAP_F_B",
                           "(0B0;1F0)OVERLAP_F_B",
                           "(0F0;1W0)OVERLAP_F_B",
                           "(;)OVERLAP_F_B",
                           "()",
                           "(",
                           "(0F0;1B0;2B0)OVERLAP_F_B",
                           "2F0\x01"}) {
    INFO(text);
    CHECK_FALSE(reason(text).empty());
  }
  CHECK(reason("2F").find("needs a micro-batch, for example 2F0") != std::string::npos);
  CHECK(reason("2UNSHARD1").find("takes no micro-batch") != std::string::npos);
  CHECK(reason("2147483648F0").find("too large") != std::string::npos);
}
