#include "am/nn/weight_pass.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"

namespace am::nn {

namespace {

constexpr const char* kKey = "weight_pass";

WeightPassPtr& in_force() {
  thread_local WeightPassPtr pass;
  return pass;
}

}  // namespace

void WeightPass::owe(const at::Tensor& weight, Product product) {
  AM_ASSERT(postpones_, "owe() requires a backward that postpones");
  deferred_.push_back({torch::autograd::impl::gradient_edge(weight), std::move(product)});
}

void WeightPass::settle() {
  AM_ASSERT(!postpones_, "settle() is called while a backward pass postpones gradients");
  std::vector<DeferredWeightGrad> deferred = std::exchange(deferred_, {});
  for (DeferredWeightGrad& each : deferred) {
    at::Tensor gradient;
    {
      const at::NoGradGuard no_grad;
      gradient = std::exchange(each.product, nullptr)();
      const bool is_last = &each == &deferred.back();
      if (is_last && fault::is_planted(fault::Fault::kPpWeightLost)) gradient.zero_();
    }
    const torch::autograd::Edge to = std::exchange(each.to, {});
    torch::autograd::Engine::get_default_engine().execute(
        {to}, {std::move(gradient)}, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true, /*outputs=*/{});
  }
}

WeightPassPtr current_weight_pass() { return in_force(); }

WeightPassScope::WeightPassScope(WeightPassPtr pass)
    : before_(std::exchange(in_force(), std::move(pass))) {}

WeightPassScope::~WeightPassScope() { in_force() = std::move(before_); }

void keep_weight_pass(torch::autograd::AutogradContext& context) {
  if (in_force()) context.saved_data[kKey] = c10::IValue::make_capsule(in_force());
}

WeightPass* postponing_pass(torch::autograd::AutogradContext& context) {
  const auto found = context.saved_data.find(kKey);
  if (found == context.saved_data.end()) return nullptr;
  auto* pass = static_cast<WeightPass*>(found->second.toCapsule().get());
  return pass->postpones() ? pass : nullptr;
}

}  // namespace am::nn
