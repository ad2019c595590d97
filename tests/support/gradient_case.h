// A small model of a family under a layout, compared with one rank: losses, gradients of each
// parameter, tokens routed to each expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace am::test {

struct GradientCase {
  std::string family = "llama";  // folder in tests/data/hf
  int64_t world = 2;
  std::string mesh = {}, strategy = {};  // lines in addition to world_size and fsdp2
  int64_t length = 24;
  bool packed = false;

  std::string name() const;
};

struct GradientOutcome {
  double loss = 0, loss_without_graph = 0, balance = 0;
  std::map<std::string, at::Tensor> gradients;
  std::vector<int64_t> expert_counts;
};

// Returns one outcome for each of some sections of the plan, gathered from all ranks. For one rank,
// mesh and strategy are ignored.
std::vector<GradientOutcome> gradients_of(const GradientCase& one,
                                          const std::vector<std::string>& sections);
const GradientOutcome& gradients_of_one_rank(const GradientCase& one);
}  // namespace am::test
