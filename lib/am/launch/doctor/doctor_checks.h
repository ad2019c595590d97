// The tables of the checks that examine() runs: checks of the job, of the GPUs and of the machine.
#pragma once

#include <string>
#include <vector>

#include "am/launch/doctor/doctor.h"

namespace am::launch {

using CheckFunction = Check (*)(const JobNeeds&, const Machine&);

// A check function, and the name that examine() stores in the function's result.
struct NamedCheck {
  const char* name;
  CheckFunction run;
};

std::vector<NamedCheck> job_checks();   // world, launcher's variables, rendezvous, libtorch
std::vector<NamedCheck> gpu_checks();   // GPUs, driver, NCCL, NCCL's requirements of the host
std::vector<NamedCheck> host_checks();  // memory, disk, limits, clock, threads

// Return a check with the status of the function's name.
inline Check ok(std::string message) { return {{}, CheckStatus::kOk, std::move(message), {}}; }
inline Check warning(std::string message, std::string help) {
  return {{}, CheckStatus::kWarning, std::move(message), std::move(help)};
}
inline Check error(std::string message, std::string help) {
  return {{}, CheckStatus::kError, std::move(message), std::move(help)};
}
inline Check skipped(std::string message) {
  return {{}, CheckStatus::kSkipped, std::move(message), {}};
}

// Returns a number with its noun in singular or plural, for example "1 rank" or "8 ranks".
std::string count_text(int64_t count, const std::string& thing);

}  // namespace am::launch
