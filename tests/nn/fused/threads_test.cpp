// Tests that the fused operators return equal results on one thread and on several.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "am/nn/fused/clamped.h"
#include "am/nn/fused/cross_entropy.h"
#include "am/nn/fused/dense.h"
#include "am/nn/fused/dropout.h"
#include "am/nn/fused/gated.h"
#include "am/nn/fused/rms_norm.h"
#include "am/nn/fused/rotary.h"
#include "support/operators.h"

namespace am {

namespace fused = nn::fused;
using test::Operator;
using test::Tensors;

TEST_CASE("operators give the same bits on any number of threads") {
  at::manual_seed(8);
  const at::Tensor angle = at::randn({64, 16});
  const at::Tensor cos = at::cat({angle.cos(), angle.cos()}, -1);
  const at::Tensor sin = at::cat({angle.sin(), angle.sin()}, -1);
  const at::Tensor labels = at::randint(400, {600}, at::kLong);
  struct Case {
    const char* name;
    Operator operation;
    Tensors inputs;
    bool differentiates = true;
  };
  const std::vector<Case> cases = {
      {"norm",
       [](const Tensors& in) { return fused::rms_norm(in[0], in[1], 1e-5); },
       {at::randn({1000, 130}), at::randn({130})}},
      {"gated",
       [](const Tensors& in) { return fused::gated(in[0], in[1], model::Activation::kSilu); },
       {at::randn({1000, 130}), at::randn({1000, 130})}},
      {"rotation",
       [&](const Tensors& in) { return fused::rotate(in[0], cos, sin); },
       {at::randn({8, 8, 64, 32})}},
      {"clamped",
       [](const Tensors& in) {
         return fused::clamped(in[0], {1.702, 1.5});
       },
       {at::randn({1000, 130})},
       false},
      {"dropout",
       [](const Tensors& in) { return fused::dropped(in[0], {.p = 0.3, .key = 7}); },
       {at::randn({1000, 130})},
       false},
      {"dense",
       [](const Tensors& in) { return fused::dense(in[0].detach().t()); },
       {at::randn({300, 700})},
       false},
      {"loss",
       [&](const Tensors& in) { return fused::cross_entropy_sum(in[0], labels, {}); },
       {at::randn({600, 400})}}};
  const int before = at::get_num_threads();
  for (const Case& each : cases) {
    INFO(each.name);
    std::vector<test::Outcome> outcomes;
    for (const int threads : {1, 4}) {
      at::set_num_threads(threads);
      const at::Tensor value = each.operation(each.inputs);
      if (each.differentiates) {
        const at::Tensor entering = value.dim() == 0 ? at::ones({}) : at::cos(value.detach());
        outcomes.push_back(test::run(each.operation, each.inputs, entering));
      } else {
        outcomes.push_back({value, {}});
      }
    }
    at::set_num_threads(before);
    CHECK(at::equal(outcomes[0].value, outcomes[1].value));
    for (size_t i = 0; i < outcomes[0].gradients.size(); ++i) {
      CHECK(at::equal(outcomes[0].gradients[i], outcomes[1].gradients[i]));
    }
  }
}

}  // namespace am
