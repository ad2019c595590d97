// Checks that a layout computes the same values as one rank. The layout's ranks and a single rank
// train for a few steps in float64, and their outputs, gradients and parameters are compared.
//
//   const LayoutVerdict verdict = verify_layout(plan, config, {.steps = 3});
//   if (verdict.divergence) std::cout << verdict.divergence->name;   // "model.layers.1"
//
// In float64, layouts differ by rounding errors of about 1e-14, so the bound can be small enough to
// detect any error of arithmetic, for example a missing sum, a wrong divisor or a shifted position.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::train {

struct VerifyOptions {
  int64_t steps = 3;
  double bound = 1e-9;  // largest Divergence::difference that is not reported
};

// The first difference between the layout and one rank.
struct Divergence {
  int64_t step = 0;  // number of the step, from 1
  // The kind of value that differs: "output" of an FSDP unit's forward, "loss", "gradient",
  // "gradient norm" or "parameter" after the update. If several kinds differ in the step, the kind
  // that is first in this order is reported. If several outputs differ, the first in the order of
  // forward is reported. If several gradients or parameters differ, the last is reported, because
  // backward spreads differences towards the first layer.
  std::string what;
  std::string name = {};  // name of the unit or the parameter; empty for loss and gradient norm
  int64_t stage = 0;      // pipeline stage of the unit or the parameter
  int64_t rank = 0;       // rank with the largest difference
  // The 2-norm of the difference, divided by the 2-norm of the single rank's value. For a gradient
  // or a parameter, the difference is that of the rank's shard, and the divisor is the norm of the
  // whole tensor, but at least a millionth of the norm of all gradients or of all parameters.
  // Infinite if a value is not finite. If a parameter's gradient was zero except for rounding, the
  // parameter's update is arbitrary. The parameter's values are then no longer compared, but its
  // gradients are.
  double difference = 0.0;
};

struct LayoutVerdict {
  int64_t steps = 0;
  double largest = 0.0;                  // the largest difference within the bound
  std::optional<Divergence> divergence;  // empty if no difference is above the bound
};

// Compares a plan's layout with one rank. Each rank of the plan is a thread of this process, on the
// host. Training begins with random initial weights, reads synthetic data and does not clip
// gradients. Ignores the plan's dtypes, backend, weights, data, validation and checkpoints.
// Requires a checked plan. Throws the errors of a job that cannot run. Throws Error(kUsage) for FP8
// with context parallelism, because the FP8 scales then differ from those of one rank.
LayoutVerdict verify_layout(const config::Plan& plan, const model::ModelConfig& config,
                            const VerifyOptions& options = {});

}  // namespace am::train
