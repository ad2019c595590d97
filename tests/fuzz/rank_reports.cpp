// Any text as what ranks and machines report of themselves: an error file, a state, a machine's
// report; the first byte says which.
#include "am/launch/cause/rank_error.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/nodes/node_report.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::launch;
  if (size == 0) return 0;
  const std::string_view text = am::fuzz::text_of(data + 1, size - 1);
  try {
    if (data[0] % 3 == 0) {
      const am::fuzz::MemoryFile file(data + 1, size - 1);
      if (const auto error = read_error_file(file.path())) am::dump_json(to_json(*error));
    } else if (data[0] % 3 == 1) {
      const RankState state = RankState::from_json(am::Json::parse(text, nullptr, false));
      static_cast<void>(state.whereabouts());
    } else if (const auto report = node_report_from(text)) {
      static_cast<void>(to_text(*report));
    }
  } catch (const am::Error&) {
    // Refused, with a reason.
  }
  return 0;
}
