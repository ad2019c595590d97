#include "am/runtime/nccl_environment.h"

#include <cstdlib>
#include <initializer_list>
#include <string>

namespace am::runtime {

namespace {

// `names`: c10d's names for one setting, the newest first.
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
  if (!dump_folder.empty()) {
    set_default({"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"},
                (dump_folder / "flight-recorder-rank-").string());
  }
}

}  // namespace am::runtime
