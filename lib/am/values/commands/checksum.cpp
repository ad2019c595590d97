#include "am/tensor/checksum.h"

#include <algorithm>
#include <map>
#include <vector>

#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/tensor/dtype.h"
#include "am/values/commands/functions.h"
#include "am/values/copies.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

struct Verdict {
  Json json;
  std::string text;
  int64_t compared = 0;  // number of replicas of all shards that have several replicas
  bool equal = true;
};

// Returns a remark for the user, for example "16 copies of 2 parts, equal". `parts`: number of
// shards of the tensor; `copies`: number of replicas of all these shards.
std::string copies_text(size_t copies, size_t parts) {
  if (copies == parts) return parts == 1 ? "one copy" : cat("one copy, of ", parts, " parts");
  return parts == 1 ? cat(copies, " copies, equal")
                    : cat(copies, " copies of ", parts, " parts, equal");
}

Verdict verdict_of(Session& session, const Picked& picked) {
  const HeldParameter& parameter = *picked.parameter;
  const std::vector<Copy> copies = copies_of(session, picked);
  const auto difference = first_difference(session, picked, copies);
  const auto text_of = [&](uint64_t sum) {
    return tensor::checksum_text(sum, picked.selection.box.shape,
                                 tensor::scalar_type(parameter.dtype));
  };
  uint64_t sum = 0;
  std::map<std::pair<Shape, Shape>, int64_t> parts;
  Json list = Json::array();
  for (const Copy& copy : copies) {
    if (copy.first) sum += copy.sum;
    ++parts[{copy.box.offset, copy.box.shape}];
    list.push_back({{"rank", copy.rank},
                    {"hash", text_of(copy.sum)},
                    {"offset", copy.box.offset},
                    {"shape", copy.box.shape}});
  }
  Verdict verdict;
  for (const auto& [box, count] : parts) verdict.compared += count > 1 ? count : 0;
  verdict.equal = !difference;
  verdict.text = copies_text(copies.size(), parts.size());
  Json first = nullptr;
  if (difference) {
    first = {{"index", difference->index},
             {"ranks", difference->ranks},
             {"against", difference->against}};
    verdict.text = cat(ranks_text(difference->ranks), " different from rank ", difference->against,
                       ", first at ", shape_text(difference->index));
  }
  verdict.json = {{"name", picked.label}, {"equal", verdict.equal},
                  {"hash", text_of(sum)}, {"compared", verdict.compared},
                  {"copies", list},       {"first_difference", first}};
  return verdict;
}

}  // namespace

Result run_checksum(Session& session, const Arguments& arguments) {
  Rows rows({{"name", {}, RowKind::kText},
             {"hash", "checksum", RowKind::kText},
             {"text", "copies", RowKind::kText}});
  std::vector<Verdict> verdicts;
  int64_t compared = 0;
  const std::vector<Picked> all = pick_all(session, arguments.words);
  Unread unread(session, all.size());
  session.expect_bytes(bytes_of(all));
  for (const Picked& picked : all) {
    Verdict verdict;
    if (!unread.read(picked.label, [&] { verdict = verdict_of(session, picked); })) continue;
    compared += verdict.compared;
    verdicts.push_back(std::move(verdict));
  }
  // Tensors whose copies differ are listed first.
  const auto rest = std::stable_partition(verdicts.begin(), verdicts.end(),
                                          [](const Verdict& each) { return !each.equal; });
  const int64_t unequal = rest - verdicts.begin();
  Json list = Json::array();
  for (Verdict& each : verdicts) {
    rows.add({{"name", each.json["name"]}, {"hash", each.json["hash"]}, {"text", each.text}});
    list.push_back(std::move(each.json));
  }
  Result result;
  rows.give(result, "parameters", session, list);
  result.failed = unequal > 0;
  if (session.view().at_rest()) {
    result.text += "a checkpoint has one replica of each tensor: there is nothing to compare\n";
  } else if (compared == 0) {
    result.text += "no two ranks hold the same values: there is nothing to compare\n";
  } else {
    result.text +=
        cat(unequal == 0 ? "all replicas are equal bit for bit\n"
                         : cat(unequal, " of ", list.size(), " tensors differ between ranks\n"));
  }
  unread.give(result);
  return result;
}

}  // namespace am::values
