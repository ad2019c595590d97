// Environment variables that can be read and set: the process's own, or separate ones for a rank
// that shares the process with others.
//
//   Variables variables = Variables::process();
//   set_variable(variables, "OLMO_SHARED_FS", "1");
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "am/launch/environment/environment.h"

namespace am::compat {

// A handle: copies refer to the same variables.
class Variables {
 public:
  // This process's environment. Setting a variable is unsafe while another thread calls getenv.
  static Variables process();
  // Separate variables with these values.
  static Variables of(std::map<std::string, std::string> values);

  std::optional<std::string> get(const std::string& name) const;
  void set(const std::string& name, const std::string& value);
  launch::EnvironmentLookup lookup() const;

 private:
  struct Own {
    std::mutex mutex;
    std::map<std::string, std::string> values;
  };
  std::shared_ptr<Own> own_;  // null: the process's environment
};

enum class SetOutcome {
  kSet,         // was absent
  kAlreadySet,  // had this value
  kKept,        // had another value, which was kept
  kOverridden,  // had another value
};

struct SetOptions {
  bool override_value = false;
  bool secret = false;  // hide both values in the message
};

struct SetResult {
  SetOutcome outcome = SetOutcome::kSet;
  std::string message;  // for the log: information, or a warning if the values differ
  bool warning = false;
};

// OLMo-core's set_env_var. Fixed: the warning about a different value shows the value that is set,
// not the requested one.
SetResult set_variable(Variables& variables, const std::string& name, const std::string& value,
                       const SetOptions& options = {});

}  // namespace am::compat
