// Folders that are known and not read, for their tensors are cut by rules that no file states:
//
//   mp_rank_00/model_optim_rng.pt                        Megatron's "torch": a pickle a rank
//   latest, global_step100/, mp_rank_*_model_states.pt   DeepSpeed
#pragma once

#include <filesystem>

namespace am::stored {

bool is_unread_folder(const std::filesystem::path& path);
// Throws Error(kFormat): what the folder is, and what turns it into one that is read.
[[noreturn]] void refuse_folder(const std::filesystem::path& path);

}  // namespace am::stored
