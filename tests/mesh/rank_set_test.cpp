#include "am/mesh/rank_set.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

namespace am::mesh {
namespace {

using Ranks = std::vector<int64_t>;

// Selects among 16 ranks, which are numbered row-major in (pp 2, dp_shard 4, tp 2).
std::optional<Ranks> select(const std::vector<std::string>& words) {
  return select_ranks(MeshLayout({.pp = 2, .dp_shard = 4, .tp = 2, .ep = 4}), words);
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    select(words);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    return error.what();
  }
  return "not refused";
}

TEST_CASE("ranks are selected by numbers, ranges and coordinates") {
  CHECK_FALSE(select({}));
  CHECK_FALSE(select({"all"}));
  CHECK(select({"3"}) == Ranks{3});
  CHECK(select({"0-2,8", "7", "8"}) == Ranks{0, 1, 2, 7, 8});
  CHECK(select({"tp=0", "dp=1,3"}) == Ranks{2, 6, 10, 14});
  CHECK(select({"tp=1", "dp_shard=2-3", "pp=1"}) == Ranks{13, 15});
  CHECK(select({"ep=3", "pp=0"}) == Ranks{3, 7});
  CHECK(select({"0-5", "tp=1"}) == Ranks{1, 3, 5});
  CHECK(select({"cp=0"})->size() == 16);
}

TEST_CASE("ranks that the mesh does not have are named") {
  CHECK(refusal({"16"}) == "there is no rank `16`");
  CHECK(refusal({"-1"}) == "there is no rank `-1`");
  CHECK(refusal({"3-1"}) == "there is no rank `3-1`");
  CHECK(refusal({"x"}) == "there is no rank `x`");
  CHECK(refusal({""}) == "there is no rank ``");
  CHECK(refusal({"1,"}) == "there is no rank ``");
  CHECK(refusal({"1-"}) == "there is no rank `1-`");
  CHECK(refusal({"all", "3"}) == "there is no rank `all`");
  CHECK(refusal({"tp=2"}) == "there is no tp index `2`");
  CHECK(refusal({"tp="}) == "there is no tp index ``");
  CHECK(refusal({"data=0"}) == "the mesh has no axis `data`");
  CHECK(refusal({"0", "tp=1"}) == "no rank satisfies `0 tp=1`");
}

}  // namespace
}  // namespace am::mesh
