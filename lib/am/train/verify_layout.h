// Checks that a layout computes the same as one rank: both train for a few steps in float64, and
// outputs, gradients and parameters are compared.
//
//   const LayoutVerdict verdict = verify_layout(plan, config, {.steps = 3});
//   if (verdict.divergence) std::cout << verdict.divergence->name;   // "model.layers.1.self_attn.q_proj"
//
// In float64, layouts differ by rounding errors of about 1e-14, so the bound can be small enough to
// detect any error of arithmetic: a missing sum, a wrong divisor, a shifted position.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::train {

struct VerifyOptions {
  int64_t steps = 3;
  double bound = 1e-9;  // relative; see Divergence::difference
};

// First difference between the layout and one rank.
struct Divergence {
  int64_t step = 0;  // from 1
  // "output" of a unit's forward, "loss", "gradient", "gradient norm" or "parameter" after the
  // update: the first of these kinds that differs. The first output in the order of forward, or the
  // last gradient or parameter, because backward spreads differences towards the first layer.
  std::string what;
  std::string name = {};  // of the unit or the parameter; empty for the whole model
  int64_t stage = 0;      // of the pipeline
  int64_t rank = 0;       // rank with the largest difference
  // 2-norm of the difference, divided by the 2-norm of the reference; for a gradient or a parameter
  // the divisor is at least a millionth of the norm of all gradients or all parameters. Infinite if
  // a value is not finite. For a parameter whose gradient was zero except for rounding only the
  // gradients are compared: its update is arbitrary.
  double difference = 0.0;
};

struct LayoutVerdict {
  int64_t steps = 0;
  double largest = 0.0;                  // largest difference within the bound
  std::optional<Divergence> divergence;  // absent: the layout computes the same as one rank
};

// Runs the plan's world in threads of this process, on the host, from initial values, with
// synthetic data and without clipping. Ignores the plan's dtypes, backend, data, validation and
// checkpoints. Requires a checked plan. Throws the errors of a job that cannot run.
LayoutVerdict verify_layout(const config::Plan& plan, const model::ModelConfig& config,
                            const VerifyOptions& options = {});

}  // namespace am::train
