// Tests the NCCL engine on this machine's GPUs: with a communicator of one rank, and with one rank
// per GPU on up to four GPUs, in threads of this process. Also tests cuda:gloo with one rank.
// Without a GPU, or for "[several]" on a machine with one GPU, the program prints the reason and
// exits with 77, which ctest reports as skipped.
#define CATCH_CONFIG_RUNNER
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "am/launch/environment/gpu_driver.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/gloo_engine.h"
#include "am/runtime/nccl_environment.h"
#include "am/runtime/staged_engine.h"
#include "am/runtime/world.h"
#include "support/rank_check.h"

namespace am::runtime {

namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

// An NCCL communicator of one rank. (World creates no communicator for a group of one rank.)
struct OneRank {
  explicit OneRank(const GroupOptions& options) {
    engine = load_cuda_plugin().make_nccl_engine({});
    store = c10::make_intrusive<c10d::HashStore>();
    backend = engine->connect(store, {"one", {0}}, 0, options);
  }

  at::TensorOptions on_gpu(at::ScalarType dtype = at::kFloat) const {
    return at::TensorOptions(dtype).device(engine->device());
  }

  std::shared_ptr<Engine> engine;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> backend;
};

int64_t gpus() { return std::min(launch::visible_gpus().count, 4); }

void on_every_gpu(const std::string& backend, const std::function<void(const World&)>& body,
                  std::chrono::milliseconds timeout = kTimeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  run_threads(gpus(), [&](int64_t rank) {
    launch::RankEnvironment here;
    here.rank = here.local_rank = rank;
    here.world_size = here.local_world_size = gpus();
    here.launcher = "local";
    body(World::meet_in(here, store, {.timeout = timeout, .backend = backend}));
  });
}

void check_collectives(const World& world, c10::Device device) {
  const Group& group = world.group();
  const int64_t size = group.size();
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const auto rank = static_cast<float>(world.rank());
  const auto total = static_cast<float>(size * (size - 1)) / 2.0F;

  at::Tensor sum = at::full({3}, rank, options);
  group.all_reduce(sum);
  RANK_CHECK(at::equal(sum.cpu(), at::full({3}, total)));
  at::Tensor most = at::full({1}, rank, options);
  group.all_reduce(most, ReduceOp::kMax);
  RANK_CHECK(most.item<float>() == static_cast<float>(size - 1));

  at::Tensor gathered = at::empty({size, 2}, options);
  group.all_gather(gathered, at::full({2}, rank, options));
  RANK_CHECK(at::equal(gathered.cpu().select(1, 0), at::arange(static_cast<double>(size))));

  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    at::Tensor mine = at::empty({2}, options.dtype(dtype));
    Pending pending = group.reduce_scatter_async(mine, at::ones({size, 2}, options.dtype(dtype)));
    pending.wait();
    const at::Tensor wanted = at::full({2}, static_cast<float>(size));
    RANK_CHECK(at::equal(mine.to(at::kFloat).cpu(), wanted));
  }

  at::Tensor word = at::full({1}, rank, options);
  group.broadcast(word, size - 1);
  RANK_CHECK(word.item<float>() == static_cast<float>(size - 1));
}

void check_messages(const World& world) {
  const Group& group = world.group();
  const auto texts = group.all_gather_text(std::string(static_cast<size_t>(world.rank()), 'x'));
  RANK_CHECK(static_cast<int64_t>(texts.size()) == group.size());
  for (size_t i = 0; i < texts.size(); ++i) RANK_CHECK(texts[i].size() == i);
  RANK_CHECK(group.broadcast_text(world.rank() == 0 ? "word" : "") == "word");
  group.barrier();
}

}  // namespace

TEST_CASE("a communicator of one rank carries out every collective") {
  const OneRank one({.timeout = kTimeout});
  std::vector<at::Tensor> tensors = {at::full({4}, 2.0F, one.on_gpu())};
  one.backend->allreduce(tensors)->wait();
  CHECK(at::equal(tensors[0].cpu(), at::full({4}, 2.0F)));
  one.backend->broadcast(tensors)->wait();
  CHECK(at::equal(tensors[0].cpu(), at::full({4}, 2.0F)));

  at::Tensor in = at::arange(4, one.on_gpu());
  at::Tensor out = at::zeros({4}, one.on_gpu());
  one.backend->_allgather_base(out, in)->wait();
  CHECK(at::equal(out, in));
  out.zero_();
  one.backend->_reduce_scatter_base(out, in)->wait();
  CHECK(at::equal(out, in));
}

TEST_CASE("an observer keeps none of its collective's tensors, and sees its end") {
  const OneRank one({.timeout = kTimeout, .high_priority_stream = true});
  std::vector<at::Tensor> tensors = {at::ones({1 << 20}, one.on_gpu())};
  auto work = one.backend->allreduce(tensors);
  const auto observer = one.engine->observer(work);
  REQUIRE(observer);
  work->wait();
  work.reset();
  tensors[0].sum().item<float>();
  CHECK(observer->isCompleted());
}

TEST_CASE("user buffers are memory like any other") {
  const OneRank one({.timeout = kTimeout, .user_buffers = true});
  auto communicator = std::make_shared<Communicator>();
  communicator->id = std::make_shared<CommunicatorId>(CommunicatorId{"one", {0}});
  communicator->accelerator = one.backend;
  communicator->accelerator_engine = one.engine;
  communicator->device = one.engine->device();
  communicator->user_buffers = true;
  communicator->context = std::make_shared<GroupContext>();
  const Group group("one", communicator);
  at::Tensor buffer = group.allocate(1 << 20, at::TensorOptions(at::kFloat));
  CHECK(buffer.device() == one.engine->device());
  buffer.fill_(3.0F);
  std::vector<at::Tensor> tensors = {buffer};
  one.backend->allreduce(tensors)->wait();
  CHECK(buffer.sum().item<float>() == Approx(3.0 * (1 << 20)));
}

TEST_CASE("ranks share a GPU where their messages go through host memory") {
  launch::RankEnvironment here;
  const c10::Device first = load_cuda_plugin().share_gpu(here);
  CHECK(first == c10::Device(c10::kCUDA, 0));
  here.local_rank = launch::visible_gpus().count;
  CHECK(load_cuda_plugin().share_gpu(here) == first);
}

TEST_CASE("a collective of GPU tensors through host memory") {
  // The group has one rank. tests/cli/run_gpu_test.py tests jobs of several processes.
  const launch::RankEnvironment here;
  const auto engine =
      make_staged_engine(make_gloo_engine(here), load_cuda_plugin().share_gpu(here));
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto group = engine->connect(store, {"one", {0}, kTimeout}, 0, {.timeout = kTimeout});
  at::Tensor value = at::zeros({1 << 20}, at::TensorOptions().device(engine->device()));
  for (int i = 0; i < 10; ++i) value.add_(1.0F);  // pending when the collective begins
  std::vector<at::Tensor> tensors = {value};
  group->allreduce(tensors, {})->wait();
  CHECK(value.sum().item<float>() == Approx(10.0 * (1 << 20)));
}

TEST_CASE("a local rank without a GPU is an error that names both") {
  launch::RankEnvironment here;
  here.local_rank = launch::visible_gpus().count;
  CHECK_THROWS_WITH(load_cuda_plugin().make_nccl_engine(here),
                    Catch::Contains(std::to_string(here.local_rank)));
}

TEST_CASE("ranks on several GPUs", "[several]") {
  SECTION("NCCL alone") {
    on_every_gpu("nccl", [](const World& world) {
      RANK_CHECK(world.device() == c10::Device(c10::kCUDA, static_cast<int8_t>(world.rank())));
      check_collectives(world, world.device());
      check_messages(world);
    });
  }
  SECTION("NCCL and Gloo") {
    on_every_gpu("cpu:gloo,cuda:nccl", [](const World& world) {
      check_collectives(world, world.device());
      check_collectives(world, c10::kCPU);
      check_messages(world);
      world.group().monitored_barrier(kTimeout);
    });
  }
  SECTION("user buffers") {
    on_every_gpu("nccl", [](const World& world) {
      const Group group =
          world.new_group("ub", world.group().ranks(), {.timeout = kTimeout, .user_buffers = true});
      at::Tensor buffer = group.allocate(4096, at::TensorOptions(at::kFloat));
      buffer.fill_(1.0F);
      group.all_reduce(buffer);
      RANK_CHECK(buffer[4095].item<float>() == static_cast<float>(group.size()));
    });
  }
  SECTION("a peer that does not come: the next collective is an error") {
    const auto body = [](const World& world) {
      if (world.rank() != 0) return;
      at::Tensor sum = at::ones({1}, at::TensorOptions().device(world.device()));
      world.group().all_reduce(sum);
      sum.item<float>();  // returns when c10d aborts the communicator
      world.group().all_reduce(sum);
    };
    CHECK_THROWS_AS(on_every_gpu("nccl", body, std::chrono::seconds(5)), CollectiveError);
  }
  SECTION("abort frees the rank that waits") {
    on_every_gpu("nccl", [](const World& world) {
      if (world.rank() == 0) {
        at::Tensor sum = at::ones({1}, at::TensorOptions().device(world.device()));
        Pending pending = world.group().all_reduce_async(sum);
        world.abort();
        RANK_CHECK(sum.numel() == 1);
      }
    });
  }
}

}  // namespace am::runtime

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (const auto problem = am::runtime::why_no_cuda()) {
    std::printf("skipped: %s\n", problem->what.c_str());
    return kSkipped;
  }
  am::runtime::set_nccl_defaults();
  Catch::Session session;
  if (const int wrong = session.applyCommandLine(argc, argv)) return wrong;
  const bool one = am::launch::visible_gpus().count == 1;
  auto& asked = session.configData().testsOrTags;
  const bool several = asked == std::vector<std::string>{"[several]"};
  if (one && several) {
    std::printf("skipped: one GPU, and ranks on several need two\n");
    return kSkipped;
  }
  if (one && asked.empty()) asked = {"~[several]"};
  return session.run();
}
