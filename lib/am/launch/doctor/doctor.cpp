#include "am/launch/doctor/doctor.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/launch/doctor/doctor_checks.h"

namespace am::launch {

const char* to_string(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kWarning:
      return "warning";
    case CheckStatus::kError:
      return "error";
    case CheckStatus::kSkipped:
      return "skipped";
  }
  return "";
}

std::string count_text(int64_t count, const std::string& thing) {
  return cat(count, " ", thing, count == 1 ? "" : "s");
}

std::vector<Check> examine(const JobNeeds& needs, const Machine& machine) {
  std::vector<Check> checks;
  for (const auto& table : {job_checks(), gpu_checks(), host_checks()}) {
    for (const NamedCheck& check : table) {
      checks.push_back(check.run(needs, machine));
      checks.back().name = check.name;
    }
  }
  return checks;
}

bool is_healthy(const std::vector<Check>& checks) {
  return std::none_of(checks.begin(), checks.end(),
                      [](const Check& check) { return check.status == CheckStatus::kError; });
}

Json to_json(const std::vector<Check>& checks) {
  Json json = {{"ok", is_healthy(checks)}};
  json["checks"] = Json::array();
  for (const Check& check : checks) {
    json["checks"].push_back({{"name", check.name},
                              {"status", to_string(check.status)},
                              {"message", check.message},
                              {"help", check.help}});
  }
  return json;
}

}  // namespace am::launch
