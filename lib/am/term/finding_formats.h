// Formats findings for other programs: editors and compilers' log parsers, GitHub Actions, and
// tools that read SARIF.
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

// Returns one line per finding in the form of gcc's messages: "FILE:LINE:COLUMN: SEVERITY: MESSAGE
// [RULE]". The help is a note of its own. A finding about a whole file has no line and no column.
std::string gcc_text(const Diagnostics& found);

// Returns one workflow command of GitHub Actions per finding, which annotates the line in a pull
// request: "::error file=..,line=..,col=..,endColumn=..,title=RULE::MESSAGE". Help follows the
// message. Reference: docs.github.com, "Workflow commands for GitHub Actions".
std::string github_text(const Diagnostics& found);

// A rule as SARIF describes it.
struct FindingRule {
  std::string_view id;
  std::string_view summary;
  std::string_view explain;
};
// Returns a SARIF 2.1.0 log of one run of am-plan. `rules`: the catalogue; the log names only rules
// with findings. Columns count Unicode code points.
Json sarif(std::span<const Diagnostics> found, std::span<const FindingRule> rules,
           std::string_view version);

}  // namespace am::term
