// What c10d's NCCL group reads from the environment, where the user has set nothing.
//
//   TORCH_NCCL_ASYNC_ERROR_HANDLING=2  A collective that fails or times out ends all communicators
//     of the rank. What waits on the GPU goes on, and the rank's next collective throws an error
//     that names it. (c10d's own default ends the process, and with it what the rank has to say.)
//   TORCH_NCCL_DUMP_ON_TIMEOUT=1, TORCH_FR_DUMP_TEMP_FILE  The flight recorder, which c10d keeps
//     anyway, then goes to FOLDER/flight-recorder-rank-R.
//   TORCH_NCCL_COORD_CHECK_MILSEC=200  How soon: before our own watchdog ends the rank.
//   TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=2000  c10d waits for the dump four times as long as this
//     before it ends the communicators.
//   TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING=false  Messages between two ranks have a
//     communicator of their own (channel.h), so that nothing that c10d warns of waits for another.
//
// Note [Ranks that share a GPU]: NCCL 2.30 has communicators with several ranks on one GPU, each a
// process of its own, where its environment asks for them. With AM_RANKS_PER_GPU=N (am-run
// --ranks-per-gpu N) above 1 the defaults are
//
//   NCCL_MULTI_RANK_GPU_ENABLE=1
//   NCCL_MAX_CTAS=max(1, 8/N)  blocks of a rank: those of all ranks run together, or wait for ever
//   NCCL_NVLS_ENABLE=0         NVLink SHARP takes one rank a GPU
#pragma once

#include <filesystem>

namespace am::runtime {

// Called for every world with NCCL, before its groups are made and before other threads read the
// environment. `dump_folder` empty: where c10d likes.
void set_nccl_defaults(const std::filesystem::path& dump_folder = {});

// Throws Error(kRuntime) where ranks share GPUs and the NCCL of this version (ncclGetVersion's
// number) cannot do it.
void require_shared_gpus(int nccl_version);

}  // namespace am::runtime
