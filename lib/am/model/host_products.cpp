#include "am/model/host_products.h"

namespace am::model {

bool products_are_onednns() {
#if defined(__x86_64__)
  static const bool better = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           !__builtin_cpu_is("intel");
  }();
  return better;
#else
  return false;
#endif
}

}  // namespace am::model
