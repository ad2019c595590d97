// Every tensor of a model's forward and backward pass is on the mesh's device. With the meta
// device, a tensor created on the host by mistake makes ATen throw.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/tensor/meta_operators.h"
#include "support/plans.h"

namespace am {

TEST_CASE("a model lives on its mesh's device, and only there") {
  tensor::register_meta_operators();
  const std::string family =
      GENERATE("llama", "mistral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "gpt_oss");
  const std::string dtype = GENERATE("float32", "bfloat16");
  INFO(family << ", computed in " << dtype);
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/", family, "\"\n[mesh]\nworld_size = 1\n[strategy]\n",
                      "name = \"fsdp2\"\nmp_policy = { param_dtype = \"", dtype, "\" }\n",
                      "[train]\nseq_len = 16\n"));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  REQUIRE(config);
  const auto sizes = layout::resolve_mesh(plan, 1, found);
  const auto layout = layout::build_layout(plan, *config, *sizes, found);
  REQUIRE(layout);

  const runtime::DeviceMesh mesh(runtime::World::single(), layout->mesh, c10::Device(c10::kMeta));
  const auto model = parallel::ParallelModel::build(plan, *config, *layout, mesh);
  const at::Tensor ids = at::zeros({2, 16}, at::TensorOptions(at::kLong).device(mesh.device()));
  const at::Tensor loss = model->loss_sum(model->forward(ids), ids);
  CHECK(loss.device() == mesh.device());
  loss.backward();
  model->data_parallel().finish_backward();
  for (const auto& group : model->data_parallel().groups()) {
    CHECK(group->flat().device() == mesh.device());
    CHECK(group->flat_grad().device() == mesh.device());
  }
}

}  // namespace am
