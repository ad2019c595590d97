// The part of a checkpoint that one rank of a model reads.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/checkpoint/checkpoint.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Opens this rank's part of am-run's checkpoint: its parameters and `states`. Requires that one
// rank has checked the checkpoint (run_folder::require_complete). Throws as
// stored::open_automesh_part does.
std::unique_ptr<stored::TensorSource> open_own_part(const std::filesystem::path& folder,
                                                    parallel::ParallelModel& model,
                                                    const std::vector<StateTensor>& states = {});

}  // namespace am::checkpoint
