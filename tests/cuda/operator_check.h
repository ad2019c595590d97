// Compares operators on a device with plain formulas in float64 on the host: values and all
// gradients, in float32 and bfloat16. The program am_gpu_tests prints a table of the errors.
//
//   am_gpu_tests                            on the first GPU; exit status 77 if there is none
//   AM_OPERATORS_DEVICE=cpu am_gpu_tests    the same table on the host
//   AM_OPERATORS_SEED=42 am_gpu_tests       the inputs of an earlier run, which printed the seed 42
//
// Inputs are random in each run. They are rounded to the dtype before the operator and the formula
// read them. Before each operator runs, NaN is written into memory that the allocator can reuse for
// the operator's tensors. The error ||out - wanted|| / ||wanted|| must be below 1e-5 in float32 and
// below 1e-2 in bfloat16; NaN always fails.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>

#include "am/nn/fused/clamped.h"
#include "support/operators.h"

namespace am::test {

// Device on which the tested operators run.
at::Device& operators_device();

// Returns a tensor of NaN of these sizes on the device.
at::Tensor poisoned(at::IntArrayRef sizes, at::ScalarType dtype);

// Returns normally distributed inputs: float64, on the host.
at::Tensor random_input(at::IntArrayRef sizes, double scale = 1.0);

// Returns the incoming gradient of an output `value`, on the value's device. The tested operator
// and the formula receive equal gradients.
using Pull = std::function<at::Tensor(const at::Tensor& value)>;
using Outcomes = std::function<Outcome(const Tensors& inputs, const Pull& pull)>;

Outcomes by_autograd(const Operator& operation);
Outcomes without_gradients(const Operator& operation);

// Prints a line of the table for each dtype, and CHECKs the errors. `inputs` are on the host, in
// float64 or integers.
void check_operator(const std::string& name, const Outcomes& ours, const Outcomes& wanted,
                    const Tensors& inputs);
// Variant that computes the gradients of both operators by autograd.
void check_operator(const std::string& name, const Operator& ours, const Operator& wanted,
                    const Tensors& inputs);

// Returns the value of nn::fused::clamped, computed by a plain formula.
at::Tensor clamped_in_full(const at::Tensor& pairs, const nn::fused::Clamp& clamp);

}  // namespace am::test
