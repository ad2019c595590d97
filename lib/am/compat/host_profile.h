// Network settings of known hosts, as data: the variables that NCCL needs there.
//
// Applied by init_distributed (am/compat/distributed_utils.h), which never overrides existing
// values.
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
  std::string_view value;  // "{timeout_ms}" is replaced by the collectives' timeout
  bool several_nodes_only = false;
};

struct HostProfile {
  std::string_view name;
  std::string_view variable;  // environment variable that identifies the host
  std::string_view contains;  // substring of the variable's value that selects the profile
  std::span<const ProfileVariable> variables;
};

// Known profiles: OLMo-core's three clusters.
std::span<const HostProfile> host_profiles();

// Returns the first profile that matches the variables, or null.
const HostProfile* find_host_profile(const Variables& variables,
                                     std::span<const HostProfile> profiles = host_profiles());

// Returns the variables that the profile sets on a job of `num_nodes`.
std::vector<std::pair<std::string, std::string>> profile_variables(
    const HostProfile& profile, int64_t num_nodes, std::chrono::milliseconds timeout);

}  // namespace am::compat
