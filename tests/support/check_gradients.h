// Compares the losses, balance losses, gradients and expert counts of two outcomes of
// gradient_case.h. Differences larger than rounding errors fail the test.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "support/gradient_case.h"

namespace am::test {

inline void check_gradients(const GradientOutcome& got, const GradientOutcome& wanted) {
  CHECK(got.loss == Approx(wanted.loss).epsilon(1e-6));
  CHECK(got.loss_without_graph == Approx(got.loss).epsilon(1e-7));
  CHECK(got.balance == Approx(wanted.balance).epsilon(1e-6));
  CHECK(got.expert_counts == wanted.expert_counts);
  REQUIRE(got.gradients.size() == wanted.gradients.size());
  for (const auto& [name, gradient] : wanted.gradients) {
    INFO(name);
    const at::Tensor apart = got.gradients.at(name) - gradient;
    CHECK(apart.norm().item<double>() <= 5e-6 * gradient.norm().item<double>() + 1e-8);
  }
}

}  // namespace am::test
