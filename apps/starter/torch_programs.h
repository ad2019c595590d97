// Starts the programs that link libtorch from tools that do not: loading libtorch takes longer than
// most answers of am-run and am-repl. See decision 12.
//
//   am-run-rank      for am-run: a rank of a plan, a dry run, the doctor
//   am-repl-values   for am-repl: commands that read values
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/launch/environment/gpu_driver.h"

namespace am_apps {

// Returns the program's path. Throws am::Error(kRuntime) if it is missing.
std::filesystem::path torch_program(const std::string& name);

// Replaces this process by the program, with the same arguments. Throws as torch_program.
[[noreturn]] void become_torch_program(const std::string& name, char** argv);

// Returns the versions of libtorch and NCCL, for --version.
std::string library_versions();

// Throws am::Error(kRuntime) with both versions if these programs would load another libtorch than
// the build's.
void require_compiled_torch();

// Returns the reason why NCCL cannot run here, or nothing if it can. If there is a GPU, this asks
// am-run-rank, once per process.
std::optional<am::launch::CudaProblem> why_no_cuda();

}  // namespace am_apps
