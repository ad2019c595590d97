#include "am/job/on_failure.h"

#include "am/base/number.h"
#include "am/base/text.h"

namespace am::job {

std::optional<OnFailure> parse_on_failure(std::string_view text) {
  constexpr std::string_view kHold = "hold=";
  constexpr int64_t kMostMinutes = int64_t{1} << 20;
  using Action = OnFailure::Action;
  if (text == "end") return OnFailure{};
  if (text == "hold") return OnFailure{Action::kHold};
  if (text == "dump") return OnFailure{Action::kDump};
  if (!starts_with(text, kHold)) return std::nullopt;
  const auto minutes = parse_integer(text.substr(kHold.size()));
  if (!minutes || *minutes < 1 || *minutes > kMostMinutes) return std::nullopt;
  return OnFailure{Action::kHold, *minutes};
}

}  // namespace am::job
