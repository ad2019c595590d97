// Adapters on a base in NF4 (lora.quantize_base) compute exactly as adapters on the dequantized
// base, and a checkpoint preserves every bit of the base under any layout.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>

#include "am/base/text.h"
#include "am/checkpoint/checkpoint.h"
#include "am/checkpoint/weights.h"
#include "am/config/write.h"
#include "am/frameworks/open_weights.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

config::Plan plan_of(const std::string& layout, const std::string& lora,
                     const std::string& dtype = "float32") {
  return test::parse(cat("[model]\npath = \"table_quantized\"\nseed = 5\ndtype = \"", dtype,
                         "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n[lora]\nrank = 4\n"
                         "target_modules = [\"all-linear\"]\n",
                         lora, layout));
}

const std::string kNf4 = "quantize_base = \"nf4\"\n";

using Named = std::map<std::string, at::Tensor>;

Named parameters_of(const parallel::ParallelModel& model) {
  Named values;
  for (const auto& parameter : model.layout().parameters) {
    values[parameter.name] = model.full_parameter(parameter.name).clone();
  }
  return values;
}

struct Computed {
  at::Tensor loss;
  Named gradients;
};

Computed compute(test::RankModel& rank) {
  at::manual_seed(3);
  const at::Tensor ids = at::randint(0, 67, {2, 16}, at::kLong);
  const at::Tensor loss = rank.model->loss_sum(rank.model->forward(ids), ids.roll(-1, 1));
  loss.backward();
  rank.model->data_parallel().finish_backward();
  Computed computed{loss.detach().clone(), {}};
  for (const auto& parameter : rank.layout.parameters) {
    if (!parameter.trainable) continue;
    computed.gradients[parameter.name] = rank.model->full_gradient(parameter.name).clone();
  }
  return computed;
}

}  // namespace

TEST_CASE("adapters on a base in NF4 compute as on the dequantized base, to the bit") {
  for (const std::string more : {"", "use_dora = true\n"}) {
    const config::Plan plan = plan_of(test::float32_fsdp2(1), kNf4 + more);
    test::RankModel quantized(plan, runtime::World::single());
    checkpoint::load_or_initialize(*quantized.model, plan);
    const Named values = parameters_of(*quantized.model);

    const config::Plan plain = plan_of(test::float32_fsdp2(1), more);
    test::RankModel whole(plain, runtime::World::single());
    checkpoint::load_or_initialize(*whole.model, plain);
    int64_t rounded = 0;
    whole.model->for_each_owned(
        [&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
          const at::NoGradGuard no_grad;
          at::Tensor value = owned.value;
          if (!at::equal(value, values.at(owned.name))) ++rounded;
          value.copy_(values.at(owned.name));
        });
    // Quantization changes the seven matrices of each of the three layers, and thereby DoRA's
    // magnitudes (the norms of the matrices' rows).
    CHECK(rounded == (more.empty() ? 21 : 42));

    const Computed ours = compute(quantized);
    const Computed theirs = compute(whole);
    CHECK(at::equal(ours.loss, theirs.loss));
    REQUIRE(ours.gradients.size() == theirs.gradients.size());
    for (const auto& [name, gradient] : theirs.gradients) {
      INFO(name);
      CHECK(at::equal(ours.gradients.at(name), gradient));
    }
  }
}

TEST_CASE("a base in NF4 has 4.5 bits a value, and is freed between the units") {
  const config::Plan plan = plan_of(test::float32_fsdp2(1), kNf4);
  test::RankModel rank(plan, runtime::World::single());
  int64_t bytes = 0, numel = 0;
  for (const auto& group : rank.model->data_parallel().groups()) {
    if (!group->quantized()) continue;
    bytes += static_cast<int64_t>(group->flat().nbytes());
    for (const auto& owned : group->owned()) numel += owned.box.numel();
    CHECK(group->unsharded_bytes() == 0);
  }
  CHECK(numel == 3 * (2 * 128 * 128 + 2 * 64 * 128 + 3 * 128 * 256));
  CHECK(bytes * 16 == numel * 9);
}

TEST_CASE("a checkpoint keeps the bits of a base in NF4 under any layout") {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const TemporaryFolder temp;
    const config::Plan plan = plan_of(test::float32_fsdp2(1), kNf4, dtype);
    test::RankModel rank(plan, runtime::World::single());
    checkpoint::load_or_initialize(*rank.model, plan);
    const Named values = parameters_of(*rank.model);
    run_folder::CheckpointInfo info;
    info.step = 1;
    info.world_size = 1;
    info.mesh = rank.layout.mesh.sizes();
    info.model_type = rank.config.model_type;
    checkpoint::save_checkpoint(temp / "step-1", {info, config::to_toml(plan)}, *rank.model);

    for (const auto& [layout, ranks] :
         {std::pair{test::float32_fsdp2(3), 3}, {test::float32_fsdp2(2, "tp_size = 2\n"), 2}}) {
      for (const std::string& lora : {kNf4, std::string()}) {
        const config::Plan other = plan_of(layout, lora, dtype);
        runtime::run_ranks(ranks, [&](const runtime::World& world) {
          test::RankModel loaded(other, world);
          checkpoint::load(*loaded.model, *frameworks::open_tensor_source(temp / "step-1"));
          for (const auto& [name, value] : parameters_of(*loaded.model)) {
            RANK_CHECK(at::equal(value, values.at(name)));
          }
        });
      }
    }
  }
}

}  // namespace am
