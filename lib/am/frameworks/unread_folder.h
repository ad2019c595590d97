// Folders that are recognised but not supported, because no file describes how their tensors are
// cut:
//
//   mp_rank_00/model_optim_rng.pt                        Megatron's "torch": a pickle per rank
//   latest, global_step100/, mp_rank_*_model_states.pt   DeepSpeed
#pragma once

#include <filesystem>

namespace am::frameworks {

bool is_unread_folder(const std::filesystem::path& path);
// Throws Error(kFormat) that names the folder's format and the tool that converts it to a supported
// one.
[[noreturn]] void refuse_folder(const std::filesystem::path& path);

}  // namespace am::frameworks
