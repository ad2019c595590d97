// Names of the Python modules whose classes torch.distributed.checkpoint pickles into `.metadata`.
#pragma once

#include <string_view>

namespace am::formats {

inline constexpr std::string_view kDcpClasses = "torch.distributed.checkpoint.metadata";
inline constexpr std::string_view kDcpStorageClasses = "torch.distributed.checkpoint.filesystem";

}  // namespace am::formats
