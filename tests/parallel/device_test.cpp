// Every tensor of a model's forward and backward pass is made on the mesh's device: on the meta
// device, one that is made on the host by mistake meets another device and ATen says so.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "am/base/text.h"
#include "support/plans.h"

namespace am {

namespace {

void require_meta(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_meta() && tensor.dim() > 0) throw std::runtime_error("a tensor of the host");
  }
}

// Shapes of operators that ATen has for Python only.
at::Tensor meta_embedding(const at::Tensor& weight, const at::Tensor& ids, c10::SymInt /*padding*/,
                          bool /*scale*/, bool /*sparse*/) {
  require_meta({ids, weight});
  std::vector<int64_t> shape = ids.sizes().vec();
  shape.push_back(weight.size(1));
  return at::empty(shape, weight.options());
}

at::Tensor meta_embedding_backward(const at::Tensor& gradient, const at::Tensor& ids,
                                   c10::SymInt rows, c10::SymInt /*padding*/, bool /*scale*/) {
  require_meta({ids, gradient});
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

at::Tensor meta_where(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
  require_meta({condition, a, b});
  const auto shape = at::infer_size(condition.sizes(), at::infer_size(a.sizes(), b.sizes()));
  return at::empty(shape, (a.is_meta() ? a : b).options());
}

at::Tensor& meta_where_out(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b,
                           at::Tensor& out) {
  out.resize_(meta_where(condition, a, b).sizes());
  return out;
}

at::Tensor& meta_logical_and(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  require_meta({a, b});
  out.resize_(at::infer_size(a.sizes(), b.sizes()));
  return out;
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("embedding", &meta_embedding);
  library.impl("where.self", &meta_where);
  library.impl("where.self_out", &meta_where_out);
  library.impl("logical_and.out", &meta_logical_and);
  library.impl("embedding_dense_backward", &meta_embedding_backward);
}

// ATen's attention kernel for the host has no meta counterpart; the plain formula has.
class WithoutFlash {
 public:
  WithoutFlash() { at::globalContext().setSDPUseFlash(false); }
  ~WithoutFlash() { at::globalContext().setSDPUseFlash(was_); }
  WithoutFlash(const WithoutFlash&) = delete;
  WithoutFlash& operator=(const WithoutFlash&) = delete;

 private:
  bool was_ = at::globalContext().userEnabledFlashSDP();
};

}  // namespace

TEST_CASE("a model lives on its mesh's device, and only there") {
  const WithoutFlash without_flash;
  const std::string family = GENERATE("llama", "mistral", "qwen2", "qwen3");
  const std::string dtype = GENERATE("float32", "bfloat16");
  INFO(family << ", computed in " << dtype);
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/", family, "\"\n[mesh]\nworld_size = 1\n[strategy]\n",
                      "name = \"fsdp2\"\nmp_policy = { param_dtype = \"", dtype, "\" }\n",
                      "[train]\nseq_len = 16\n"));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  REQUIRE(config);
  const auto sizes = planner::resolve_mesh(plan, 1, found);
  const auto layout = planner::build_layout(plan, *config, *sizes, found);
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
