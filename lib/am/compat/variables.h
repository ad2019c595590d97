// Environment variables that can be read and set: the process's own, or those of a rank that shares
// the process with others.
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

// A handle: copies see the same variables.
class Variables {
 public:
  // This process's environment. Setting one is not safe while another thread reads it by getenv.
  static Variables process();
  // A set of its own.
  static Variables of(std::map<std::string, std::string> values);

  std::optional<std::string> get(const std::string& name) const;
  void set(const std::string& name, const std::string& value);
  launch::EnvironmentLookup lookup() const;

 private:
  struct Own {
    std::mutex mutex;
    std::map<std::string, std::string> values;
  };
  std::shared_ptr<Own> own_;  // null: the process's
};

enum class SetOutcome {
  kSet,         // it was absent
  kAlreadySet,  // it had this value
  kKept,        // it has another value, which stays
  kOverridden,  // it had another value
};

struct SetOptions {
  bool override_value = false;
  bool secret = false;  // the message shows neither value
};

struct SetResult {
  SetOutcome outcome = SetOutcome::kSet;
  std::string message;  // for a log: information, or a warning where the values differ
  bool warning = false;
};

// OLMo-core's set_env_var. Mended: the warning about a different value shows the value that is set,
// not the one that was asked for.
SetResult set_variable(Variables& variables, const std::string& name, const std::string& value,
                       const SetOptions& options = {});

}  // namespace am::compat
