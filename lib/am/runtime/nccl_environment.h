// Defaults of environment variables for c10d's NCCL group and the GPU's allocator. Variables that
// the user has set are not changed.
//
//   TORCH_NCCL_ASYNC_ERROR_HANDLING=2  A collective that fails or times out ends all communicators
//     of the rank. Work that waits on the GPU continues, and the rank's next collective throws an
//     error that names the failed collective. (With c10d's own default, the process would end
//     before the rank could report the error.)
//   TORCH_NCCL_DUMP_ON_TIMEOUT=1, TORCH_FR_DUMP_TEMP_FILE  After this failure, c10d writes its
//     flight recorder, which always records, to FOLDER/flight-recorder-rank-R (R: the rank).
//   TORCH_NCCL_COORD_CHECK_MILSEC=200  Delay of this dump. The delay must be short, because
//     automesh's watchdog soon ends the rank.
//   TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=2000  c10d waits for the dump four times as long as this
//     value before it ends the communicators.
//   TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING=false  Point-to-point messages use a
//     separate communicator (channel.h), so the serialization that c10d warns of does not occur.
//   PYTORCH_ALLOC_CONF=expandable_segments:True  The allocator can reuse freed memory for blocks of
//     other sizes. Full parameters are allocated and freed often, and the size of logits depends on
//     the batch.
//
// Note [Ranks that share a GPU]: since version 2.30, NCCL supports communicators with several ranks
// on one GPU, each in a separate process, if environment variables enable this feature. If
// AM_RANKS_PER_GPU=N (am-run --ranks-per-gpu N) is above 1, these are further defaults:
//
//   NCCL_MULTI_RANK_GPU_ENABLE=1
//   NCCL_MAX_CTAS=max(1, 8/N)  thread blocks of a rank; a deadlock occurs unless the blocks of all
//                              ranks fit on the GPU at the same time
//   NCCL_NVLS_ENABLE=0         NVLink SHARP supports only one rank per GPU
#pragma once

#include <filesystem>

namespace am::runtime {

// Sets the defaults. Called for every world with NCCL, before its groups are created and before
// other threads read the environment. `dump_folder`: the FOLDER of the flight recorder;
// empty: c10d's default.
void set_nccl_defaults(const std::filesystem::path& dump_folder = {});

// Throws Error(kRuntime) if ranks share GPUs and this version of NCCL (ncclGetVersion's number)
// does not support sharing.
void require_shared_gpus(int nccl_version);

}  // namespace am::runtime
