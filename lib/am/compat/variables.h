// Environment variables that can be read and set: the process's variables, or a separate set for a
// rank that shares the process with other ranks.
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

// Refers to a set of variables. Copies of the object refer to the same set.
class Variables {
 public:
  // Returns this process's environment. Setting a variable is unsafe while another thread calls
  // getenv.
  static Variables process();
  // Returns separate variables with these values.
  static Variables of(std::map<std::string, std::string> values);

  std::optional<std::string> get(const std::string& name) const;
  void set(const std::string& name, const std::string& value);
  launch::EnvironmentLookup lookup() const;

 private:
  struct Own {
    std::mutex mutex;
    std::map<std::string, std::string> values;
  };
  std::shared_ptr<Own> own_;  // separate variables; null if the process's environment is used
};

enum class SetOutcome {
  kSet,         // the variable was missing and was set
  kAlreadySet,  // the variable had the requested value already
  kKept,        // the variable had another value, which was not changed
  kOverridden,  // the variable had another value, which was replaced
};

struct SetOptions {
  bool override_value = false;
  bool secret = false;  // whether the message hides the old and the new value
};

struct SetResult {
  SetOutcome outcome = SetOutcome::kSet;
  std::string message;   // line for the log
  bool warning = false;  // whether the message is a warning, because the old value differed
};

// Sets a variable, as OLMo-core's set_env_var does. A variable that has another value is changed
// only if `override_value` is set. Otherwise the message is a warning that shows the value that is
// kept. (OLMo-core shows the requested value instead.)
SetResult set_variable(Variables& variables, const std::string& name, const std::string& value,
                       const SetOptions& options = {});

}  // namespace am::compat
