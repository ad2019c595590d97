// The ranks of a job agree on one job id and on the list of their launchers.
#include "am/train/job_identity.h"

#include <catch2/catch.hpp>

#include "support/rank_check.h"

namespace am::train {

TEST_CASE("the ranks of a job agree on its id") {
  runtime::run_ranks(3, [&](const runtime::World& world) {
    const run_folder::JobIdentity launched = agree_on_job(world, world.rank() == 2 ? "b" : "a");
    RANK_CHECK(launched.id == "a");
    RANK_CHECK((launched.launchers == std::vector<std::string>{"a", "b"}));
    const run_folder::JobIdentity alone = agree_on_job(world, "");
    RANK_CHECK(alone.id.size() == 16);
    RANK_CHECK(alone.launchers.empty());
    RANK_CHECK(world.group().broadcast_text(alone.id) == alone.id);
  });
}

}  // namespace am::train
