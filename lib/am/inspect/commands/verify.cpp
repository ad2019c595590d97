#include <algorithm>
#include <filesystem>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/stored_files.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

// Largest number of problems that the JSON answer lists (kMostProblems) and that the text lists
// (kMostShown). Further problems are only counted. The number may be large, because one missing
// file causes a problem for each of its tensors.
constexpr size_t kMostProblems = 1000;
constexpr size_t kMostShown = 20;

std::string whole_line(const stored::TensorSource& source) {
  const int64_t bytes = bytes_of(source);
  const size_t tensors = source.tensors().size() + source.optimizer_tensors().size();
  const size_t files = source.data_files().size();
  return cat(format_count(static_cast<int64_t>(tensors)), tensors == 1 ? " tensor" : " tensors",
             " in ", files, files == 1 ? " file, " : " files, ", format_bytes(bytes),
             ": undamaged\n");
}

}  // namespace

Result run_verify(Session& session, const Arguments&) {
  const stored::TensorSource& source = require_files(session, "verify");
  std::vector<stored::StoredProblem> problems;
  size_t more = 0;
  session.expect_bytes(bytes_of(source));
  source.verify({[&](stored::StoredProblem problem) {
                   if (problems.size() == kMostProblems) {
                     ++more;
                   } else {
                     problems.push_back(std::move(problem));
                   }
                 },
                 session.between(), [&](int64_t bytes) { session.saw_bytes(bytes); }});
  Result result;
  Json list = Json::array();
  term::Table table({{"where"}, {"problem", term::Align::kWrap}});
  for (const stored::StoredProblem& problem : problems) {
    list.push_back({{"what", problem.what}, {"where", problem.where}});
    if (list.size() <= kMostShown) table.add({problem.where, problem.what});
  }
  result.failed = !problems.empty();
  result.json["problems"] = list;
  if (more > 0) result.json["more"] = more;
  if (!result.failed) {
    result.text = whole_line(source);
    return result;
  }
  const size_t all = problems.size() + more;
  result.text = table.text(session.style());
  if (all > kMostShown) result.text += cat("and ", all - kMostShown, " more\n");
  result.text += cat(source.path().string(), ": ", all, all == 1 ? " problem\n" : " problems\n");
  return result;
}

}  // namespace am::inspect
