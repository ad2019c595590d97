#define CATCH_CONFIG_RUNNER
#include "cuda/operator_check.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "am/runtime/engine_plugin.h"

namespace am::test {

at::Device& operators_device() {
  static at::Device one = at::kCPU;
  return one;
}

namespace {

double allowed(at::ScalarType dtype) { return dtype == at::kFloat ? 1e-5 : 1e-2; }

// Allocates tensors of NaN and frees them. The tensors allocated next can then begin as NaN.
void poison_memory() {
  Tensors all;
  for (int64_t numel = 64; numel <= (1 << 20); numel *= 4) {
    for (int i = 0; i < 4; ++i) {
      all.push_back(at::full({numel}, std::nan(""),
                             at::TensorOptions(at::kFloat).device(operators_device())));
    }
  }
}

at::Tensor on_host(const at::Tensor& x) { return x.to(at::kCPU).to(at::kDouble); }

double error_of(const at::Tensor& got, const at::Tensor& wanted) {
  if (!got.defined() || got.sizes() != wanted.sizes()) return std::nan("");
  const auto apart = at::linalg_vector_norm(on_host(got) - wanted).item<double>();
  const auto size = at::linalg_vector_norm(wanted).item<double>();
  return size == 0.0 && apart == 0.0 ? 0.0 : apart / size;
}

}  // namespace

at::Tensor poisoned(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::full(sizes, std::nan(""), at::TensorOptions(dtype).device(operators_device()));
}

Outcomes by_autograd(const Operator& operation) {
  return [operation](const Tensors& inputs, const Pull& pull) {
    Tensors leaves;
    for (const at::Tensor& each : inputs) {
      leaves.push_back(each.is_floating_point() ? each.detach().requires_grad_(true) : each);
    }
    Outcome made = {operation(leaves), {}};
    made.value.backward(pull(made.value));
    for (const at::Tensor& leaf : leaves) {
      if (leaf.requires_grad()) made.gradients.push_back(leaf.grad());
    }
    return made;
  };
}

Outcomes without_gradients(const Operator& operation) {
  return [operation](const Tensors& inputs, const Pull& /*pull*/) -> Outcome {
    const at::NoGradGuard no_grad;
    return {operation(inputs), {}};
  };
}

void check_operator(const std::string& name, const Outcomes& ours, const Outcomes& wanted,
                    const Tensors& inputs) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto rounded = [&](const at::Tensor& x) {
      return x.is_floating_point() ? x.to(dtype) : x;
    };
    Tensors here, exact;
    for (const at::Tensor& input : inputs) {
      here.push_back(rounded(input).to(operators_device()));
      exact.push_back(input.is_floating_point() ? on_host(rounded(input)) : input);
    }
    at::Tensor entering;
    const Outcome right = wanted(exact, [&](const at::Tensor& value) {
      return entering = on_host(at::randn(value.sizes(), at::kDouble).to(dtype));
    });
    poison_memory();
    const Outcome got =
        ours(here, [&](const at::Tensor& value) { return entering.to(value.options()); });
    const char* narrow = dtype == at::kFloat ? "float32 " : "bfloat16";
    std::vector<double> errors = {error_of(got.value, right.value.detach())};
    for (size_t i = 0; i < got.gradients.size(); ++i) {
      if (!got.gradients[i].defined() && !right.gradients.at(i).defined()) continue;
      errors.push_back(error_of(got.gradients[i], right.gradients.at(i)));
    }
    bool fine = true;
    std::printf("%-46s %s ", name.c_str(), narrow);
    for (const double error : errors) {
      std::printf(" %.1e", error);
      fine = fine && error < allowed(dtype);  // false for NaN
    }
    std::printf("%s\n", fine ? "" : "   TOO MUCH");
    INFO(name << " " << narrow);
    CHECK(fine);
  }
}

void check_operator(const std::string& name, const Operator& ours, const Operator& wanted,
                    const Tensors& inputs) {
  check_operator(name, by_autograd(ours), by_autograd(wanted), inputs);
}

at::Tensor random_input(at::IntArrayRef sizes, double scale) {
  return at::randn(sizes, at::kDouble) * scale;
}

at::Tensor clamped_in_full(const at::Tensor& pairs, const nn::fused::Clamp& clamp) {
  const at::Tensor both = pairs.unflatten(-1, {-1, 2});
  const at::Tensor gate = both.select(-1, 0).clamp_max(clamp.limit);
  const at::Tensor up = both.select(-1, 1).clamp(-clamp.limit, clamp.limit);
  return (up + 1) * gate * (gate * clamp.alpha).sigmoid();
}

}  // namespace am::test

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  const char* named = std::getenv("AM_OPERATORS_DEVICE");
  if (named == nullptr) {
    // why_no_cuda() loads the plugin: see Note [Load CUDA first] in am/runtime/engine_plugin.h.
    if (const auto problem = am::runtime::why_no_cuda()) {
      std::printf("skipped: %s\n", problem->what.c_str());
      return kSkipped;
    }
    am::test::operators_device() = at::Device(at::kCUDA, 0);
  } else {
    am::test::operators_device() = at::Device(named);
    if (am::test::operators_device().is_cuda()) am::runtime::load_cuda_plugin();
  }
  const char* given = std::getenv("AM_OPERATORS_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("on %s, AM_OPERATORS_SEED=%llu; relative errors of the value and of gradients\n",
              am::test::operators_device().str().c_str(), static_cast<unsigned long long>(seed));
  at::manual_seed(seed);
  return Catch::Session().run(argc, argv);
}
