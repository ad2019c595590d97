// Input: a report between ranks and launchers. The first byte selects the kind: a rank's error
// file, a rank's state, a node's report, or the verdict of node 0.
#include "am/launch/cause/rank_error.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/nodes/node_report.h"
#include "am/launch/nodes/verdict.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::launch;
  if (size == 0) return 0;
  const std::string_view text = am::fuzz::text_of(data + 1, size - 1);
  try {
    if (data[0] % 4 == 0) {
      const am::fuzz::MemoryFile file(data + 1, size - 1);
      if (const auto error = read_error_file(file.path())) am::dump_json(to_json(*error));
    } else if (data[0] % 4 == 1) {
      const RankState state = RankState::from_json(am::Json::parse(text, nullptr, false));
      static_cast<void>(state.whereabouts());
    } else if (data[0] % 4 == 2) {
      if (const auto report = node_report_from(text)) static_cast<void>(to_text(*report));
    } else if (const auto verdict = verdict_from(text, 8)) {
      JobResult result;
      result.exit_status = 1;
      add(*verdict, result);
      static_cast<void>(describe(result) + to_text(*verdict));
    }
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
