#include "am/layout/tp_plugin.h"

#include "am/base/error.h"
#include "am/base/shared_library.h"
#include "am/base/text.h"
#include "am/layout/tp_plan_abi.h"

namespace am::layout {

std::string call_tp_plugin(const std::filesystem::path& library, const std::string& symbol) {
  const auto plan = reinterpret_cast<am_tp_plan_function>(load_symbol(library, symbol));
  const char* text = plan();
  if (text == nullptr) {
    throw Error(ErrorKind::kIo, cat(library.string(), ": ", symbol, "() returned no plan"));
  }
  return text;
}

}  // namespace am::layout
