// The option --on-failure of am-run: the action of all ranks after a failed step, before the job
// ends. A step fails if its loss or its gradients are not finite and the job therefore ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace am::job {

struct OnFailure {
  enum class Action : uint8_t {
    kEnd,   // the job ends at once
    kHold,  // the ranks first serve am-repl, until am-repl ends the hold or `minutes` have passed
    kDump,  // the ranks first write the state before the step's update to RUN/failure/step-N
  };
  Action action = Action::kEnd;
  int64_t minutes = 60;
};

// Parses "end", "hold", "hold=MINUTES" with 1 to 2^20 minutes, and "dump". Returns nullopt for any
// other text.
std::optional<OnFailure> parse_on_failure(std::string_view text);

}  // namespace am::job
