// Opens only the part of a checkpoint that one rank of a model needs.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/checkpoint/checkpoint.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Opens the part of a checkpoint of am-run that this rank needs: the boxes of its parameters and of
// `states`. At least one rank must have checked the checkpoint with run_folder::require_complete().
// Throws the errors of stored::open_automesh_part().
std::unique_ptr<stored::TensorSource> open_own_part(const std::filesystem::path& folder,
                                                    parallel::ParallelModel& model,
                                                    const std::vector<StateTensor>& states = {});

}  // namespace am::checkpoint
