#include "am/runtime/nccl_environment.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/environment/nccl.h"

namespace am::runtime {

namespace {

// Sets the environment variable names[0] to `value`, unless one of `names` is set already. `names`
// are the names of one setting, newest first.
void set_default(std::initializer_list<const char*> names, const std::string& value) {
  for (const char* name : names) {
    if (std::getenv(name) != nullptr) return;
  }
  ::setenv(*names.begin(), value.c_str(), /*overwrite=*/0);
}

}  // namespace

void set_nccl_defaults(const std::filesystem::path& dump_folder) {
  set_default({"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"}, "2");
  set_default({"TORCH_NCCL_DUMP_ON_TIMEOUT"}, "1");
  set_default({"TORCH_NCCL_COORD_CHECK_MILSEC"}, "200");
  set_default({"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}, "2000");
  set_default({"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"}, "false");
  set_default({"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}, "expandable_segments:True");
  if (const int64_t ranks = launch::ranks_per_gpu(); ranks > 1) {
    set_default({"NCCL_MULTI_RANK_GPU_ENABLE"}, "1");
    set_default({"NCCL_MAX_CTAS"}, std::to_string(std::max<int64_t>(1, 8 / ranks)));
    set_default({"NCCL_NVLS_ENABLE"}, "0");
  }
  if (!dump_folder.empty()) {
    set_default({"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"},
                (dump_folder / "flight-recorder-rank-").string());
  }
}

void require_shared_gpus(int nccl_version) {
  const int64_t ranks = launch::ranks_per_gpu();
  if (ranks == 1 || nccl_version >= launch::kFirstNcclWithSharedGpus) return;
  throw Error(ErrorKind::kRuntime,
              cat(ranks, " ranks per GPU need NCCL ",
                  launch::nccl_version_name(launch::kFirstNcclWithSharedGpus),
                  " or newer, and NCCL ", launch::nccl_version_name(nccl_version), " is loaded"),
              "load a newer one (LD_PRELOAD=DIR/libnccl.so.2), or use backend = \"cuda:gloo\"");
}

}  // namespace am::runtime
