// Tests the counterparts of NeMo AutoModel's distributed utils in jobs of 1 to 5 ranks.
#include "am/compat/utils.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <thread>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/compat/distributed_utils.h"
#include "compat/job.h"
#include "support/rank_check.h"

namespace am::compat {

using job::Logs;
using job::run_job;

TEST_CASE("a Gloo group of its own", "[parity]") {
  Distributed alone(compat::Variables::of({}));
  CHECK_FALSE(create_gloo_group(alone));
  for (int64_t size = 1; size <= 5; ++size) {
    Logs logs;
    run_job(
        {size},
        [&](Distributed& dist) {
          const auto first = create_gloo_group(dist);
          const auto second = create_gloo_group(dist);
          RANK_CHECK(first && second && first->size() == size);
          at::Tensor sum = at::ones({1});
          first->all_reduce(sum);
          RANK_CHECK(sum.item<float>() == static_cast<float>(size));
          if (size > 1) {
            RANK_CHECK(first->communicator() != second->communicator());
            RANK_CHECK(first->communicator() != dist.world().group().communicator());
          }
        },
        &logs);
    CHECK(logs.count(LogLevel::kDebug, "created Gloo group") == 2 * size);
  }
}

TEST_CASE("a barrier with a timeout is true when all come", "[parity]") {
  Distributed alone(compat::Variables::of({}));
  CHECK(barrier_with_timeout(alone, std::chrono::milliseconds(1)));
  for (int64_t size = 1; size <= 5; ++size) {
    run_job({size}, [&](Distributed& dist) {
      RANK_CHECK(barrier_with_timeout(dist, std::chrono::seconds(30)));
      RANK_CHECK(barrier_with_timeout(dist, std::chrono::seconds(30)));
      if (size > 2 && get_rank(dist) < 2) {  // waits for the group's two ranks only
        const runtime::Group pair = dist.world().make_group("pair", {0, 1});
        RANK_CHECK(barrier_with_timeout(dist, std::chrono::seconds(30), &pair));
      }
    });
  }
}

TEST_CASE("a barrier with a timeout is false when one stays away, and names it", "[parity]") {
  for (int64_t size = 2; size <= 5; ++size) {
    Logs logs;
    run_job(
        {size},
        [&](Distributed& dist) {
          if (get_rank(dist) == size - 1) return;
          RANK_CHECK(!barrier_with_timeout(dist, std::chrono::milliseconds(300)));
        },
        &logs);
    CHECK(logs.count(LogLevel::kWarning, cat("rank ", size - 1, " did not arrive")) == size - 1);
  }
}

TEST_CASE("after a barrier that timed out the rank waits in nothing") {
  run_job({2}, [](Distributed& dist) {
    if (get_rank(dist) == 1) {
      // Joins the group that barrier_with_timeout() creates on rank 0, but skips the barrier.
      create_gloo_group(dist);
      return std::this_thread::sleep_for(std::chrono::milliseconds(600));
    }
    RANK_CHECK(!barrier_with_timeout(dist, std::chrono::milliseconds(300)));
    RANK_CHECK(!dist.world().progress().waiting().has_value());
  });
}

TEST_CASE("a monitored barrier names who comes into the group and then stays away") {
  Logs logs;
  CHECK_THROWS_WITH(run_job(
                        {3},
                        [&](Distributed& dist) {
                          const auto group = create_gloo_group(dist);
                          if (get_rank(dist) == 2) {
                            while (logs.count(LogLevel::kInfo, "named") == 0) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(10));
                            }
                            return;
                          }
                          try {
                            group->monitored_barrier(std::chrono::milliseconds(500));
                          } catch (const Error& error) {
                            const std::string text = error.what();
                            dist.log(LogLevel::kInfo, "named");
                            if (get_rank(dist) == 0) throw;
                          }
                        },
                        &logs),
                    Catch::Contains("monitored_barrier") && Catch::Contains("2"));
}

TEST_CASE("a barrier that is logged", "[parity]") {
  for (int64_t size = 1; size <= 5; ++size) {
    Logs logs;
    run_job(
        {size}, [](Distributed& dist) { barrier_and_log(dist, "after init"); }, &logs);
    CHECK(logs.count(LogLevel::kInfo, "[after init] datetime: 20") == size);
  }
  Logs logs;
  Distributed alone(compat::Variables::of({}), logs.of(0));
  barrier_and_log(alone, "x");
  CHECK(logs.count(LogLevel::kInfo, "[x] datetime: ") == 1);
}

TEST_CASE("an evaluation set is divided for DDP alone", "[parity]") {
  using Shard = std::pair<int64_t, int64_t>;
  CHECK(dp_eval_sample_shard(config::DDPConfig{}, 1, 4) == Shard(1, 4));
  CHECK_FALSE(dp_eval_sample_shard(config::DDPConfig{}, 0, 1));
  CHECK_FALSE(dp_eval_sample_shard(config::FSDP2Config{}, 1, 4));
  CHECK_FALSE(dp_eval_sample_shard(config::MegatronFSDPConfig{}, 1, 4));
}

TEST_CASE("losses and their denominators are summed, not divided", "[parity]") {
  const std::vector<at::Tensor> losses = {at::full({1}, 1.5),
                                          at::scalar_tensor(2.0, at::kBFloat16)};
  const ReducedLoss alone = reduce_loss(losses, 7);
  CHECK(alone.loss.scalar_type() == at::kFloat);
  CHECK(alone.loss.sizes() == at::IntArrayRef{1});
  CHECK(alone.loss.item<float>() == 3.5F);
  CHECK(alone.denominator.item<int64_t>() == 7);
  CHECK(reduce_loss(losses, 7, /*per_token_loss=*/false).denominator.item<int64_t>() == 2);
  // Empty lists of losses and counts beyond 2^31 are supported. (AutoModel supports neither.)
  CHECK(reduce_loss({}, 0).loss.item<float>() == 0.0F);
  CHECK(reduce_loss({}, 5, false).denominator.item<int64_t>() == 0);
  const int64_t many = int64_t{3} << 31;
  for (int64_t size = 1; size <= 5; ++size) {
    run_job({size}, [&](Distributed& dist) {
      const runtime::Group& group = dist.world().group();
      const auto rank = static_cast<float>(get_rank(dist));
      const ReducedLoss sum = reduce_loss({at::full({1}, rank)}, many, true, &group);
      RANK_CHECK(sum.loss.item<float>() == static_cast<float>(size * (size - 1) / 2));
      RANK_CHECK(sum.denominator.item<int64_t>() == many * size);
      const std::vector<at::Tensor> uneven(static_cast<size_t>(get_rank(dist)), at::ones({1}));
      const ReducedLoss counted = reduce_loss(uneven, 0, false, &group);
      RANK_CHECK(counted.denominator.item<int64_t>() == size * (size - 1) / 2);
    });
  }
  at::Tensor tracked = at::ones({1}).requires_grad_(true);
  CHECK_FALSE(reduce_loss({tracked * 2}, 1).loss.requires_grad());
}

}  // namespace am::compat
