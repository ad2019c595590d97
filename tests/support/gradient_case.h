// Computes the losses, the gradient of each parameter, and the number of tokens routed to each
// expert for a family's small model, under a layout or on one rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace am::test {

struct GradientCase {
  std::string family = "llama";          // folder in tests/data/hf
  int64_t world = 2;                     // number of ranks
  std::string mesh = {}, strategy = {};  // more lines of [mesh] and of [strategy]
  int64_t length = 24;                   // tokens per sequence
  bool packed = false;                   // each sequence contains several documents

  std::string name() const;
};

// Losses, full gradients and expert counts of one global batch. `loss_without_graph` is the loss of
// forward_only(). `balance` is the auxiliary loss that balances the load of experts.
struct GradientOutcome {
  double loss = 0, loss_without_graph = 0, balance = 0;
  std::map<std::string, at::Tensor> gradients;
  std::vector<int64_t> expert_counts;
};

// Returns one outcome for each element of `sections`, which is text that is added to the plan, for
// example a [context] section. Losses and expert counts are sums over all ranks. If `one.world` is
// 1, `sections` and the case's mesh and strategy are ignored.
std::vector<GradientOutcome> gradients_of(const GradientCase& one,
                                          const std::vector<std::string>& sections);
// Returns the outcome of the case on one rank. The outcome is computed once for each combination of
// family, length and packing.
const GradientOutcome& gradients_of_one_rank(const GradientCase& one);
}  // namespace am::test
