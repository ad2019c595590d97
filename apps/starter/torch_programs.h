// Starts the programs that link libtorch. am-run and am-repl do not link libtorch themselves,
// because loading libtorch takes longer than most of their commands. See lib/decisions/0012.
//
//   am-run-rank      for am-run: a rank of a plan, --dry-run, --verify-layout, the doctor
//   am-repl-values   for am-repl: commands that read values
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/launch/environment/gpu_driver.h"

namespace am_apps {

// Returns whether the program is installed. An installation without libtorch contains none of these
// programs.
bool has_torch_program(const std::string& name);

// Returns the program's path. Throws am::Error(kRuntime) if the program is missing or cannot be
// executed. The error's hint describes how to install the program.
std::filesystem::path torch_program(const std::string& name);

// Replaces this process by the program, with `argv` as its command line. Throws am::Error(kRuntime)
// if the program cannot be run.
[[noreturn]] void become_torch_program(const std::string& name, char** argv);

// Returns the text of --version about libtorch and NCCL: their versions, or why there are none.
std::string library_versions();

// Throws am::Error(kRuntime) if the libtorch that the programs would load differs in its major or
// minor version from the libtorch for which automesh was compiled. The message contains both
// versions.
void require_compiled_torch();

// Returns the reason why NCCL cannot run on this machine, or nothing if it can. If there is a GPU,
// the answer comes from am-run-rank, which is started once per process.
std::optional<am::launch::CudaProblem> why_no_cuda();

}  // namespace am_apps
