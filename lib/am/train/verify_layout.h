// Whether a layout computes what one rank computes: both train for a few steps in float64, and are
// held against each other on the way.
//
//   const LayoutVerdict verdict = verify_layout(plan, config, {.steps = 3});
//   if (verdict.parting) std::cout << verdict.parting->name;   // "model.layers.1.self_attn.q_proj"
//
// In float64 layouts differ by rounding of 1e-14 or so, so that the bound can be one under which no
// mistake of arithmetic hides: a missing sum, a wrong divisor, a shifted position.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::train {

struct VerifyOptions {
  int64_t steps = 3;
  double bound = 1e-9;  // relative; see Parting::difference
};

// Where a layout parts from one rank.
struct Parting {
  int64_t step = 0;  // from 1
  // "output" of a unit's forward, "loss", "gradient", "gradient norm" or "parameter" after the
  // update: the first of these that differs. Of outputs the first in the order of forward, of
  // gradients and parameters the last: backward spreads differences towards the first layer.
  std::string what;
  std::string name = {};  // of the unit or the parameter; empty: of the whole model
  int64_t stage = 0;      // of the pipeline
  int64_t rank = 0;       // that is furthest
  // 2-norm of the difference over that of one rank's value; of gradients and parameters over at
  // least a millionth of the norm of all. Infinite where one is no number. A parameter whose
  // gradient was zero but for rounding is held to its gradients alone: where the optimizer took it
  // is chance.
  double difference = 0.0;
};

struct LayoutVerdict {
  int64_t steps = 0;
  double largest = 0.0;            // difference of anything, where nothing parts
  std::optional<Parting> parting;  // absent: the layout computes what one rank does
};

// Runs the plan's world in threads of this process, on the host, from initial values and with
// synthetic data, without clipping; dtypes, backend, data, validation and checkpoints of the plan
// are left aside. The plan was checked. Throws what a job throws that cannot run.
LayoutVerdict verify_layout(const config::Plan& plan, const model::ModelConfig& config,
                            const VerifyOptions& options = {});

}  // namespace am::train
