// A library whose constructor creates the file named by AM_TEST_MARK. Tests use the file to detect
// that the library was loaded, even if none of its functions was called.
#include <cstdio>
#include <cstdlib>

#include "am/layout/tp_plan_abi.h"

namespace {

__attribute__((constructor)) void leave_a_file() {
  const char* file = std::getenv("AM_TEST_MARK");
  if (file == nullptr) return;
  if (std::FILE* mark = std::fopen(file, "w")) std::fclose(mark);
}

}  // namespace

AM_TP_PLAN(feed_forward) {
  return "\"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\"\n"
         "\"model.layers.*.mlp.down_proj\" = \"rowwise\"\n";
}
