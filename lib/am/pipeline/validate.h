// Whether a schedule can be executed, and trains every stage on every micro-batch once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// What is wrong at a slot of a rank, or with no slot about the rank's list as a whole.
struct Violation {
  std::string rule;
  size_t rank = 0;
  std::optional<size_t> slot;
  std::string message;
  std::string help;
};

// All of them, by kind and within a kind by rank:
//   schedule.syntax     an action that is no pass: a schedule names no messages
//   schedule.owner      a stage on two ranks
//   schedule.passes     a pass that is missing or there twice, a whole backward beside its parts, a
//                       rank without any
//   schedule.order      a backward before its forward, W before I
//   schedule.deadlock   ranks that wait for each other for ever; looked for when all else is right
// `owners` and `microbatches` are those of the schedule, and every action is within them.
std::vector<Violation> validate(const Schedule& schedule);

}  // namespace am::pipeline
