// Checks that a schedule can be executed and trains every stage on every micro-batch exactly once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// A violation at one slot of a rank's list. If `slot` is empty, the violation concerns the rank's
// whole list, or a stage that no rank has (`rank` is then 0).
struct Violation {
  std::string rule;
  size_t rank = 0;
  std::optional<size_t> slot;
  std::string message;
  std::string help;
};

// Returns all violations, under these rules:
//   schedule.syntax     an action that computes nothing, such as SEND_F or UNSHARD
//   schedule.owner      a stage on two ranks
//   schedule.passes     a missing or repeated action, a whole backward in addition to its parts, a
//                       rank or a stage without actions
//   schedule.order      a backward before its forward, W before I
//   schedule.deadlock   ranks that wait for each other forever; checked only if there is no
//                       other violation
// The schedule's `owners` and `microbatches` must cover all its actions.
std::vector<Violation> validate(const Schedule& schedule);

}  // namespace am::pipeline
