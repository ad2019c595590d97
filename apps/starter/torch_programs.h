// Programs that have libtorch, started by tools that have none: loading libtorch takes longer than
// most of what am-run and am-repl say. See decision 12.
//
//   am-run-rank      of am-run: a rank of a plan, a dry run, the doctor
//   am-repl-values   of am-repl: what reads values
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/launch/environment/gpu_driver.h"

namespace am_apps {

// Where one is. Throws am::Error(kRuntime) when it is not there.
std::filesystem::path torch_program(const std::string& name);

// This process goes on as that program, with the same arguments. Throws as torch_program.
[[noreturn]] void become_torch_program(const std::string& name, char** argv);

// Of --version: libtorch's version and NCCL's.
std::string library_versions();

// Throws am::Error(kRuntime) with both versions when such a program would load another libtorch
// than the one that this build was compiled with.
void require_compiled_torch();

// What keeps NCCL from running here; nothing: it can run. Where there is a GPU this asks
// am-run-rank, once.
std::optional<am::launch::CudaProblem> why_no_cuda();

}  // namespace am_apps
