#include "am/launch/environment/nccl.h"

#include <dlfcn.h>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::launch {

std::string nccl_version_name(int version) {
  const bool old = version < 10000;
  return cat(version / (old ? 1000 : 10000), ".", version / 100 % (old ? 10 : 100), ".",
             version % 100);
}

std::optional<int> loaded_nccl_version() {
  auto* get = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) return std::nullopt;
  return version;
}

int64_t ranks_per_gpu(const EnvironmentLookup& lookup) {
  const auto given = lookup(kRanksPerGpuVariable);
  if (!given) return 1;
  const auto ranks = parse_integer(*given);
  if (ranks && *ranks >= 1) return *ranks;
  throw Error(ErrorKind::kUsage,
              cat(kRanksPerGpuVariable, "=", *given, " is not a number of ranks"),
              "legal: 1 and more");
}

}  // namespace am::launch
