// Tables of the environment variables that NCCL needs on the hosts of known clusters.
//
// init_distributed (am/compat/distributed_utils.h) sets these variables, and never overrides
// existing values.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/compat/variables.h"

namespace am::compat {

struct ProfileVariable {
  std::string_view name;
  std::string_view value;           // "{timeout_ms}" stands for the timeout of collectives
  bool several_nodes_only = false;  // whether the variable is set only in jobs of several nodes
};

struct HostProfile {
  std::string_view name;
  std::string_view variable;  // environment variable that identifies the host
  std::string_view contains;  // substring of the value of `variable` on hosts with this profile
  std::span<const ProfileVariable> variables;
};

// Returns the known profiles: those of the three clusters that OLMo-core knows.
std::span<const HostProfile> host_profiles();

// Returns the first profile whose HostProfile::variable has a value that contains
// HostProfile::contains; null if there is no such profile.
const HostProfile* find_host_profile(const Variables& variables,
                                     std::span<const HostProfile> profiles = host_profiles());

// Returns the names and values of the variables that the profile sets for a job of `num_nodes`
// nodes.
std::vector<std::pair<std::string, std::string>> profile_variables(
    const HostProfile& profile, int64_t num_nodes, std::chrono::milliseconds timeout);

}  // namespace am::compat
