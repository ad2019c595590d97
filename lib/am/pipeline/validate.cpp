#include "am/pipeline/validate.h"

#include <utility>

#include "am/base/text.h"
#include "am/pipeline/timeline.h"

namespace am::pipeline {
namespace {

// Passes of one stage on one micro-batch that check_list() has found so far.
struct Passes {
  bool forward = false;
  bool backward = false;
  bool input = false;
  bool weight = false;
};

class Validation {
 public:
  explicit Validation(const Schedule& schedule)
      : schedule_(schedule),
        passes_(static_cast<size_t>(schedule.stages() * schedule.microbatches)) {}

  std::vector<Violation> run() {
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) check_list(rank);
    check_missing();
    if (violations_.empty()) check_deadlock();
    return std::move(violations_);
  }

 private:
  void add(std::string rule, size_t rank, std::optional<size_t> slot, std::string message,
           std::string help = {}) {
    violations_.push_back({std::move(rule), rank, slot, std::move(message), std::move(help)});
  }

  Passes& passes(const Action& action) {
    return passes_[static_cast<size_t>(action.stage * schedule_.microbatches + action.micro_batch)];
  }

  void check_list(size_t rank) {
    const auto& list = schedule_.ranks[rank];
    bool has_pass = false;
    for (size_t i = 0; i < list.size(); ++i) {
      for (const Action& action : list[i].actions()) {
        if (!is_compute(action.kind)) {
          add("schedule.syntax", rank, i, cat(to_string(action), " is not a pass"),
              "list only forwards (F) and backwards (B, or I and W); all other actions are added");
          continue;
        }
        has_pass = true;
        check_owner(rank, i, action);
        check_pass(rank, i, action);
      }
    }
    if (!has_pass) add("schedule.passes", rank, std::nullopt, cat("rank ", rank, " has no pass"));
  }

  void check_owner(size_t rank, size_t slot, const Action& action) {
    const int64_t owner = schedule_.owners[static_cast<size_t>(action.stage)];
    if (owner == static_cast<int64_t>(rank)) return;
    add("schedule.owner", rank, slot,
        cat(to_string(action), ": stage ", action.stage, " is on rank ", owner, " already"),
        "write all passes of a stage in the line of one rank");
  }

  void check_pass(size_t rank, size_t slot, const Action& action) {
    Passes& met = passes(action);
    bool twice = false;
    const char* lacks = nullptr;
    switch (action.kind) {
      case Kind::kForward:
        twice = std::exchange(met.forward, true);
        break;
      case Kind::kBackward:
        twice = std::exchange(met.backward, true) || met.input || met.weight;
        if (!met.forward) lacks = "F";
        break;
      case Kind::kBackwardInput:
        twice = std::exchange(met.input, true) || met.backward;
        if (!met.forward) lacks = "F";
        break;
      default:
        twice = std::exchange(met.weight, true) || met.backward;
        if (!met.input && !met.backward) lacks = "I";
        break;
    }
    if (twice) {
      add("schedule.passes", rank, slot,
          cat(to_string(action), ": stage ", action.stage,
              " has this pass, or a part of it, on micro-batch ", action.micro_batch, " already"),
          "a stage needs one F for each micro-batch, and either one B or one I and one W");
    } else if (lacks != nullptr) {
      add("schedule.order", rank, slot,
          cat(to_string(action), " comes before ", action.stage, lacks, action.micro_batch));
    }
  }

  void check_missing() {
    for (int64_t stage = 0; stage < schedule_.stages(); ++stage) {
      const int64_t owner = schedule_.owners[static_cast<size_t>(stage)];
      if (owner < 0) {
        add("schedule.passes", 0, std::nullopt,
            cat("stage ", stage, " has no pass, though later stages have some"));
        continue;
      }
      for (int64_t m = 0; m < schedule_.microbatches; ++m) {
        const Passes& met = passes_[static_cast<size_t>(stage * schedule_.microbatches + m)];
        const auto missing = [&](const char* kind) {
          add("schedule.passes", static_cast<size_t>(owner), std::nullopt,
              cat(stage, kind, m, " is missing on rank ", owner));
        };
        if (!met.forward) missing("F");
        if (!met.backward && !met.input && !met.weight) missing("B");
        if (met.input && !met.weight && !met.backward) missing("W");
        if (met.weight && !met.input && !met.backward) missing("I");
      }
    }
  }

  // Returns a description of the pass of another stage whose result `action` needs; empty if
  // `action` needs none.
  std::string input_of(const Action& action) const {
    if (action.kind == Kind::kForward && action.stage > 0) {
      return cat("the forward of stage ", action.stage - 1, " on micro-batch ", action.micro_batch);
    }
    if (makes_input_gradient(action.kind) && action.stage + 1 < schedule_.stages()) {
      return cat("the backward of stage ", action.stage + 1, " on micro-batch ",
                 action.micro_batch);
    }
    return {};
  }

  void check_deadlock() {
    for (const Stuck& stuck : find_deadlock(schedule_)) {
      const auto rank = static_cast<size_t>(stuck.rank);
      const Slot& slot = schedule_.ranks[rank][stuck.slot];
      std::vector<std::string> inputs;
      for (const Action& action : slot.actions()) {
        std::string input = input_of(action);
        if (!input.empty()) inputs.push_back(std::move(input));
      }
      add("schedule.deadlock", rank, stuck.slot,
          cat("rank ", rank, " waits here forever: ", to_string(slot), " needs ",
              join(inputs, " and ")),
          "the ranks wait for each other in a cycle: look for a pass that comes too early");
    }
  }

  const Schedule& schedule_;
  std::vector<Passes> passes_;  // passes found so far, by stage and micro-batch
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> validate(const Schedule& schedule) { return Validation(schedule).run(); }

}  // namespace am::pipeline
