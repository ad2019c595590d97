// Formats findings, the diagnostics of `am-plan check`, for other programs: editors and other
// programs that parse compiler output, GitHub Actions, and tools that read SARIF.
//
//   Diagnostics found;
//   gcc_text(found);     // for example "plan.toml:5:11: error: tp_size = 3 ... [tp.kv_heads]\n"
//   github_text(found);  // "::error file=plan.toml,line=5,col=11,..::tp_size = 3 ...\n"
//   sarif({&found, 1}, {}, "0.1.0");
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/base/json.h"

namespace am::term {

// Returns a line per finding in the form of gcc's messages: "FILE:LINE:COLUMN: SEVERITY: MESSAGE
// [RULE]". If the finding has help, a second line with the severity "note" contains the help. The
// line and column are omitted if the finding is about a whole file; FILE is "am-plan" if the
// finding is about no file.
std::string gcc_text(const Diagnostics& found);

// Returns one workflow command of GitHub Actions per finding. The command annotates the finding's
// line in a pull request: "::error file=..,line=..,col=..,endColumn=..,title=RULE::MESSAGE". Help
// follows the message. Reference: docs.github.com, "Workflow commands for GitHub Actions".
std::string github_text(const Diagnostics& found);

// The description of a rule in SARIF: its id, a short and a full text.
struct FindingRule {
  std::string_view id;
  std::string_view summary;
  std::string_view explain;
};
// Returns a SARIF 2.1.0 log of one run of am-plan with the findings of all `found`. `rules`
// describes all rules; the log contains only rules with findings. `version`: version of am-plan.
// Columns count Unicode code points.
Json sarif(std::span<const Diagnostics> found, std::span<const FindingRule> rules,
           std::string_view version);

}  // namespace am::term
