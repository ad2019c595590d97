// The size of prediction errors, by kind of run: an error of a model with experts is larger than
// that of a dense model, and an error on a new GPU larger than on an A100.
//
//   const ErrorScale scale{.base = 0.2, .factors = {{"experts", 1.5}}};
//   scale.of({"hopper", "experts"});   // 0.3: nine in ten times are within a factor of exp(0.3)
#pragma once

#include <map>
#include <string>
#include <vector>

#include "am/cluster/hardware.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Quantile 0.9 of |log(predicted / measured seconds)| over runs of some kinds: the product of
// `base` and the factors of the kinds. A kind without a factor counts as 1.
struct ErrorScale {
  double base = 0.5;
  std::map<std::string, double, std::less<>> factors;

  double of(const std::vector<std::string>& kinds) const;
};

// Return the kinds of a run that ErrorScale distinguishes. kinds_of_new(): those that a run of a
// new publication or on a new GPU shares with measured runs, which are the GPU's architecture, the
// number format of matmuls, and "experts" for a model with experts. kinds_of(): also the GPU
// product and the implementation.
std::vector<std::string> kinds_of_new(const Workload& workload, const cluster::Gpu& gpu);
std::vector<std::string> kinds_of(const Workload& workload, const cluster::Gpu& gpu);

}  // namespace am::predict
