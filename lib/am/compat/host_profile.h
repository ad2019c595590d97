// Network tuning of hosts that are known by name, as data: which variables NCCL wants there.
//
// init_distributed (am/compat/distributed_utils.h) sets them, never over a value that is set.
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
  std::string_view value;  // "{timeout_ms}" stands for the collectives' timeout
  bool several_nodes_only = false;
};

struct HostProfile {
  std::string_view name;
  std::string_view variable;  // of the environment, that names the host
  std::string_view contains;  // the profile applies where the variable's value contains this
  std::span<const ProfileVariable> variables;
};

// The known ones: OLMo-core's three clusters.
std::span<const HostProfile> host_profiles();

// The first profile that fits these variables; null: none.
const HostProfile* find_host_profile(const Variables& variables,
                                     std::span<const HostProfile> profiles = host_profiles());

// What the profile sets on a job of `num_nodes`.
std::vector<std::pair<std::string, std::string>> profile_variables(
    const HostProfile& profile, int64_t num_nodes, std::chrono::milliseconds timeout);

}  // namespace am::compat
