// Tests the keys of [strategy] that affect when messages are sent (prefetch depths and overlap),
// and mp_policy's casts of inputs and outputs.
//
// Other keys are tested in the files in parentheses: sequence_parallel, tp_plan (transformers_test,
// train/loop_test, layout/layout_test), mp_policy's dtypes, defer_fsdp_grad_sync,
// reshard_after_forward, bucket_cap_mb, disable_bucketing, zero_dp_strategy, fsdp_double_buffer
// (strategy_table_test, memory_test), autocast_dtype (autocast_test), activation_checkpointing
// (checkpointing_test), shard_placement, ignored_params (fully_shard_test, strategy_table_test),
// offload_policy (offload_test, predict/host_memory_test), check_for_nan_in_grad
// (train/nonfinite_test), backend (cli/run_backend_test); keys that are refused or have no effect
// (rules/rule_cases_test, cli/run_train_test).
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/tensor/memory_meter.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am {
namespace {

using test::kFullPrecision;

using tensor::TensorUse;

std::string large_table_plan(int64_t world, const std::string& strategy) {
  return cat("[model]\npath = \"table_large\"\n[train]\nseq_len = 8\n[mesh]\nworld_size = ", world,
             "\n[strategy]\n", strategy);
}

// Largest number of bytes in communication buffers when a collective was sent, in forward and in
// backward.
struct InFlight {
  int64_t forward = 0;
  int64_t backward = 0;
  std::string order;  // backward's collectives in order: g gathers, r reductions
};

InFlight in_flight(const std::string& strategy) {
  const config::Plan plan = test::parse(large_table_plan(2, strategy));
  InFlight most;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    const tensor::MemoryMeter meter;
    InFlight mine;
    bool backward = false;
    world.context()->on_collective = [&](const runtime::Collective& collective, int64_t /*bytes*/) {
      int64_t& bytes = backward ? mine.backward : mine.forward;
      bytes = std::max(bytes, meter.live().of(TensorUse::kCommunication));
      if (backward) mine.order += std::string(collective.op) == "all_gather" ? 'g' : 'r';
    };
    const at::Tensor ids = at::arange(16).view({2, 8});
    const at::Tensor loss = rank.model->loss_sum(rank.model->forward(ids), ids);
    backward = true;
    loss.backward();
    rank.model->data_parallel().finish_backward();
    if (world.rank() == 0) most = mine;
  });
  return most;
}

// Gathered float32 bytes of a layer of table_large: q, k, v, o, gate, up, down and four norms.
constexpr int64_t kLayer =
    4 * (128 * 128 + 2 * 64 * 128 + 128 * 128 + 3 * 344 * 128 + 2 * 128 + 2 * 32);

}  // namespace

TEST_CASE("prefetch depths say how many layers are on their way") {
  const auto plan = [](int forward, int backward) {
    return cat(kFullPrecision,
               "enable_fsdp2_prefetch = true\nfsdp2_forward_prefetch_depth = ", forward,
               "\nfsdp2_backward_prefetch_depth = ", backward, "\n");
  };
  CHECK(in_flight(kFullPrecision).forward == kLayer);
  CHECK(in_flight(plan(1, 0)).forward == kLayer);
  CHECK(in_flight(plan(2, 0)).forward == 2 * kLayer);
  CHECK(in_flight(plan(3, 0)).forward == 3 * kLayer);
  const int64_t none = in_flight(plan(0, 0)).backward;
  CHECK(in_flight(plan(0, 2)).backward > none);
  // With a greater depth, the last gather of backward (the first layer's) is sent earlier.
  CHECK(in_flight(plan(0, 3)).order.rfind('g') < in_flight(plan(0, 2)).order.rfind('g'));
}

TEST_CASE("enable_fsdp2_prefetch gathers layers before they are asked for") {
  // The last layer stays gathered after forward, so its backward needs no gather, and its reduction
  // follows. With prefetch, the gathers of the next layers are sent before this reduction.
  const std::string without = in_flight(kFullPrecision).order;
  const std::string with = in_flight(kFullPrecision + "enable_fsdp2_prefetch = true\n").order;
  CHECK(std::count(with.begin(), with.end(), 'g') ==
        std::count(without.begin(), without.end(), 'g'));
  CHECK(with.find('g') < without.find('g'));
}

TEST_CASE("megatron_fsdp overlaps what its switches say") {
  const std::string optim = "name = \"megatron_fsdp\"\nzero_dp_strategy = 1\n";
  const InFlight both = in_flight(optim);
  const InFlight late =
      in_flight(optim + "overlap_grad_reduce = false\noverlap_param_gather = false\n");
  // Without overlap, all gradients are pending until the end.
  CHECK(late.backward > 2 * both.backward);
  CHECK(both.order == late.order);
}

TEST_CASE("overlap_param_gather gathers the next unit while one computes") {
  const std::string optim = "name = \"megatron_fsdp\"\nzero_dp_strategy = 1\n";
  // Units are gathered one at a time. Before the forward of unit 0 begins, the gathers of units 0
  // and 1 are sent with overlap, and only the gather of unit 0 without overlap.
  const auto gathers_before_first_layer = [](const std::string& strategy) {
    const config::Plan plan = test::parse(large_table_plan(2, strategy));
    int64_t sent = 0;
    runtime::run_ranks(2, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      int64_t mine = 0;
      world.context()->on_collective = [&](const runtime::Collective& /*collective*/,
                                           int64_t /*bytes*/) { ++mine; };
      at::Tensor ids = at::zeros({1, 8}, at::kLong);
      rank.model->data_parallel().before_unit(0, {&ids, 1});
      world.context()->on_collective = nullptr;
      rank.model->data_parallel().finish_backward();
      if (world.rank() == 0) sent = mine;
    });
    return sent;
  };
  CHECK(gathers_before_first_layer(optim) == 2);
  CHECK(gathers_before_first_layer(optim + "overlap_param_gather = false\n") == 1);
}

TEST_CASE("mp_policy casts inputs and outputs where it says so") {
  const auto types = [](const std::string& policy) {
    const config::Plan plan =
        test::parse(large_table_plan(1, cat("mp_policy = { ", policy, " }\n")));
    // Dtypes of the first layer's input and of the logits.
    std::pair<at::ScalarType, at::ScalarType> found;
    runtime::run_ranks(1, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      auto& data_parallel = rank.model->data_parallel();
      at::Tensor x = at::zeros({1, 8, 128});
      data_parallel.before_unit(1, {&x, 1});
      found.first = x.scalar_type();
      data_parallel.finish_backward();
      found.second = rank.model->forward(at::zeros({1, 8}, at::kLong)).scalar_type();
    });
    return found;
  };
  CHECK(types("cast_forward_inputs = true, output_dtype = \"float32\"") ==
        std::pair(at::kBFloat16, at::kFloat));
  CHECK(types("cast_forward_inputs = true, output_dtype = \"bfloat16\"") ==
        std::pair(at::kBFloat16, at::kBFloat16));
  CHECK(types("param_dtype = \"float32\", cast_forward_inputs = true, output_dtype = "
              "\"float16\"") == std::pair(at::kFloat, at::kHalf));
  // By default, parameters are in bfloat16, and inputs and outputs are not cast.
  CHECK(types("") == std::pair(at::kFloat, at::kBFloat16));
  CHECK(types("param_dtype = \"float32\"") == std::pair(at::kFloat, at::kFloat));
}

}  // namespace am
