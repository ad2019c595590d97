#include "am/parallel/ddp/ddp.h"

namespace am::parallel {

DataParallelOptions ddp_options(const planner::Layout& layout, at::ScalarType storage_dtype) {
  DataParallelOptions options;
  options.storage_dtype = storage_dtype;
  options.reshard_after_forward.assign(layout.units.size(), false);
  return options;
}

}  // namespace am::parallel
