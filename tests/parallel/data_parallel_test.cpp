// Tests DataParallel's public functions: gathering units by module name, the gradient divide
// factor, reductions that are still in flight after a backward pass, parameters that received no
// gradient, and double buffers.
#include "am/parallel/data_parallel.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/tensor/memory_meter.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am {
namespace {

std::string plan_text(int64_t world, const std::string& strategy) {
  return cat("[model]\npath = \"table\"\n[train]\nseq_len = 8\n[mesh]\nworld_size = ", world,
             "\n[strategy]\n", strategy);
}

std::string fsdp2(const std::string& param, const std::string& reduce) {
  return cat("mp_policy = { param_dtype = \"", param, "\", reduce_dtype = \"", reduce, "\" }\n");
}

at::Tensor ids() { return at::arange(16).remainder(67).view({2, 8}); }

void backward(parallel::ParallelModel& model) {
  (model.loss_sum(model.forward(ids()), ids()) / 16.0).backward();
  model.data_parallel().finish_backward();
}

// Returns all gradients of a rank in one tensor.
at::Tensor gradients(parallel::ParallelModel& model) {
  std::vector<at::Tensor> all;
  for (const auto& group : model.data_parallel().groups()) all.push_back(group->flat_grad());
  return at::cat(all);
}

std::vector<std::string> unsharded(parallel::ParallelModel& model) {
  std::vector<std::string> names;
  for (const auto& group : model.data_parallel().groups()) {
    if (group->is_unsharded()) names.push_back(group->name());
  }
  return names;
}

}  // namespace

TEST_CASE("modules are gathered and freed by name") {
  const config::Plan plan = test::parse(plan_text(2, fsdp2("float32", "float32")));
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    auto& data_parallel = rank.model->data_parallel();
    data_parallel.unshard("model.layers.1.mlp");
    RANK_CHECK(unsharded(*rank.model) == std::vector<std::string>{"model.layers.1"});
    auto handle = data_parallel.unshard("model", /*async_op=*/true);
    RANK_CHECK(unsharded(*rank.model).size() == 1);
    handle.wait();
    handle.wait();
    // Five units are gathered: the embedding, three layers and the final norm. The head is not part
    // of "model".
    RANK_CHECK(unsharded(*rank.model).size() == 5);
    data_parallel.reshard("model.layers.1");
    RANK_CHECK(unsharded(*rank.model).size() == 4);
    data_parallel.reshard("");
    RANK_CHECK(unsharded(*rank.model).empty());
    bool refused = false;
    try {
      data_parallel.unshard("model.layers.7");
    } catch (const Error& error) {
      refused = error.kind() == ErrorKind::kUsage;
    }
    RANK_CHECK(refused);
  });
}

TEST_CASE("resharding drops what is being gathered: the next pass sees new values") {
  const std::string param = GENERATE("float32", "bfloat16");
  const config::Plan plan = test::parse(plan_text(2, fsdp2(param, "float32")));
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    auto& data_parallel = rank.model->data_parallel();
    const at::NoGradGuard no_grad;
    auto handle = data_parallel.unshard("", /*async_op=*/true);  // in flight during reshard()
    data_parallel.reshard("");
    for (const auto& group : data_parallel.groups()) group->trained().mul_(2.0);
    const at::Tensor logits = rank.model->forward(ids()).clone();
    data_parallel.unshard("");
    data_parallel.reshard("");
    RANK_CHECK(at::equal(rank.model->forward(ids()), logits));
    handle.wait();  // gathers the freed units again
    RANK_CHECK(unsharded(*rank.model).size() == data_parallel.groups().size());
    data_parallel.reshard("");
  });
}

TEST_CASE("gradients are sums, divided by the factor that is set") {
  const std::string reduce = GENERATE("float32", "float16");
  const config::Plan plan = test::parse(plan_text(2, fsdp2("float32", reduce)));
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    backward(*rank.model);
    const at::Tensor sums = gradients(*rank.model).clone();
    rank.model->data_parallel().zero_grad();
    for (const auto& group : rank.model->data_parallel().groups()) {
      RANK_CHECK(!group->flat_grad().defined());  // freed by zero_grad()
    }
    rank.model->data_parallel().set_gradient_divide_factor(8.0);
    backward(*rank.model);
    const double apart = (gradients(*rank.model) * 8.0 - sums).norm().item<double>();
    RANK_CHECK(sums.norm().item<double>() > 0.0);
    RANK_CHECK(apart <= (reduce == "float16" ? 1e-3 : 1e-7) * sums.norm().item<double>());
  });
}

TEST_CASE("float16 reductions divide before they overflow") {
  const config::Plan plan = test::parse(plan_text(2, fsdp2("float32", "float16")));
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    auto& group = *rank.model->data_parallel().groups().front();
    auto& reducer = group.gradients();
    const Shape whole = {67, 34};
    reducer.set_divide_factor(4.0);
    reducer.take(0, at::full(whole, 60000.0F));  // the sum over two ranks exceeds float16's 65504
    reducer.begin_reduce();
    reducer.finish_reduce();
    RANK_CHECK(group.view_in(reducer.flat(), 0).eq(30000.0F).all().item<bool>());
  });
}

TEST_CASE("reductions may outlast a backward pass that is not the last") {
  const std::string mesh = GENERATE("", "[mesh]\ndp_replicate_size = 2\n");
  const int64_t ranks = mesh.empty() ? 2 : 4;
  std::string text = plan_text(ranks, fsdp2("float32", "float32"));
  if (!mesh.empty()) text.insert(text.find("[strategy]"), "dp_replicate_size = 2\n");
  const config::Plan plan = test::parse(text);
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    auto& data_parallel = rank.model->data_parallel();
    backward(*rank.model);
    const at::Tensor once = gradients(*rank.model).clone();
    data_parallel.zero_grad();
    data_parallel.set_is_last_backward(false);
    backward(*rank.model);
    bool under_way = false;
    for (const auto& group : data_parallel.groups()) {
      under_way = under_way || group->gradients().in_flight();
    }
    RANK_CHECK(under_way);
    data_parallel.set_is_last_backward(true);
    backward(*rank.model);
    for (const auto& group : data_parallel.groups()) RANK_CHECK(!group->gradients().in_flight());
    RANK_CHECK((gradients(*rank.model) - 2 * once).norm().item<double>() <=
               1e-6 * once.norm().item<double>());
  });
}

TEST_CASE("a bucket with parameters that got no gradient is reduced with zeros") {
  const config::Plan plan = test::parse(plan_text(2, "name = \"ddp\"\n"));
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    auto& data_parallel = rank.model->data_parallel();
    const auto& group = *data_parallel.groups().front();
    for (const auto& each : data_parallel.groups())
      each->gradients().take(0, at::ones_like(each->owned()[0].value));
    data_parallel.finish_backward();
    RANK_CHECK(group.view_in(group.flat_grad(), 0).eq(2.0).all().item<bool>());
    RANK_CHECK(group.view_in(group.flat_grad(), 1).eq(0.0).all().item<bool>());
  });
}

TEST_CASE("double buffers keep their memory, and only as much as layers need at once") {
  const std::string level3 = "name = \"megatron_fsdp\"\n";
  const config::Plan plan = test::parse(plan_text(2, level3 + "fsdp_double_buffer = true\n"));
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    const tensor::MemoryMeter meter;
    std::vector<int64_t> live;
    for (int step = 0; step < 3; ++step) {
      backward(*rank.model);
      live.push_back(meter.live().total());
    }
    RANK_CHECK(live[0] > 0);
    RANK_CHECK(live[1] == live[0]);
    RANK_CHECK(live[2] == live[0]);
  });
}

}  // namespace am
