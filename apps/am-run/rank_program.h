// am-run-rank, the program that has libtorch: a rank of a plan, a dry run, the doctor. am-run
// itself links the core alone, because loading libtorch takes longer than most of what it says. See
// decision 12.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/launch/environment/gpu_driver.h"

namespace am_run {

// Where it is. Throws Error(kRuntime) when it is not there.
std::filesystem::path rank_program();

// This process goes on as am-run-rank, with the same arguments. Throws as rank_program.
[[noreturn]] void become_rank_program(char** argv);

// Of --version: libtorch's version and NCCL's.
std::string library_versions();

// Throws Error(kRuntime) with both versions when ranks would load another libtorch than the one
// that this build was compiled with.
void require_compiled_torch();

// What keeps NCCL from running here; nothing: it can run. Where there is a GPU this asks
// am-run-rank, once.
std::optional<am::launch::CudaProblem> why_no_cuda();

}  // namespace am_run
