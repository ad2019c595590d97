#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <vector>

#include "am/base/text.h"
#include "am/inspect/layers.h"
#include "am/inspect/stored_files.h"
#include "am/term/table.h"
#include "am/values/commands/functions.h"
#include "am/values/two_sources.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

using stored::StoredTensor;
using stored::TensorSource;

// Returns whether the stored checksums of two tensors are equal. Returns nullopt if a checkpoint
// stores no checksums of its tensor, or if the tensors are sharded differently in their files.
std::optional<bool> same_by_checksums(const TensorSource& here, const StoredTensor& a,
                                      const TensorSource& there, const StoredTensor& b) {
  const bool cut_alike =
      std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(),
                 [](const auto& left, const auto& right) { return left.box == right.box; });
  if (!cut_alike) return std::nullopt;
  const std::vector<uint32_t> of_a = here.checksums(a), of_b = there.checksums(b);
  if (of_a.empty() || of_b.empty()) return std::nullopt;
  return of_a == of_b;
}

// Returns whether the stored bytes of two tensors of equal shape and dtype are equal.
bool same_by_values(Session& session, const TensorSource& here, const StoredTensor& a,
                    const TensorSource& there, const StoredTensor& b) {
  std::atomic<bool> same = true;
  for_each_pair(session, Side(here), a, Side(there), b,
                [&](size_t, const at::Tensor& left, const at::Tensor& right) {
                  const bool equal = std::memcmp(left.const_data_ptr(), right.const_data_ptr(),
                                                 left.nbytes()) == 0;
                  if (!equal) same = false;
                  return equal;
                });
  return same;
}

struct Verdict {
  std::string name;
  std::string status;
  std::string by;  // basis of the comparison: "checksums" or "values"; empty: neither
};

Verdict verdict_of(Session& session, const TensorSource& here, const TensorSource& there,
                   const StoredTensor& a) {
  const StoredTensor* b = there.find(a.name);
  if (b == nullptr) return {a.name, "only here", ""};
  if (a.shape != b->shape) return {a.name, "shape", ""};
  if (a.dtype != b->dtype) return {a.name, "dtype", ""};
  const auto summed = same_by_checksums(here, a, there, *b);
  if (summed) session.saw_bytes(a.bytes());
  const bool same = summed ? *summed : same_by_values(session, here, a, there, *b);
  return {a.name, same ? "same" : "different", summed ? "checksums" : "values"};
}

}  // namespace

Result run_same(Session& session, const Arguments& arguments) {
  const TensorSource& here = require_files(session, "same");
  const auto there = open_weights_at(session.path(arguments.words.front()));
  std::vector<Verdict> all;
  Unread unread(session, here.tensors().size());
  session.expect_bytes(bytes_of(here));
  for (const auto* list : {&here.tensors(), &here.optimizer_tensors()}) {
    for (const StoredTensor& tensor : *list) {
      Verdict verdict{tensor.name, "unreadable", ""};
      unread.read(tensor.name, [&] { verdict = verdict_of(session, here, *there, tensor); });
      session.check_interrupt();
      all.push_back(std::move(verdict));
    }
  }
  for (const auto* list : {&there->tensors(), &there->optimizer_tensors()}) {
    for (const StoredTensor& tensor : *list) {
      if (here.find(tensor.name) == nullptr) all.push_back({tensor.name, "only there", ""});
    }
  }
  Result result;
  Json list = Json::array();
  std::vector<inspect::NamedRow> unequal;
  size_t same = 0, read = 0;
  for (const Verdict& each : all) {
    list.push_back({{"name", each.name},
                    {"status", each.status},
                    {"by", each.by.empty() ? Json(nullptr) : Json(each.by)}});
    if (each.by == "values") ++read;
    if (each.status == "same") {
      ++same;
    } else {
      unequal.push_back({each.name, each.status});
    }
  }
  result.failed = same < all.size();
  result.json = {{"same", !result.failed}, {"tensors", list}};
  if (!arguments.has("--flat")) unequal = inspect::fold_layers(unequal);
  term::Table table({{"name"}, {"status"}});
  for (const inspect::NamedRow& row : unequal) table.add({row.name, row.text});
  if (result.failed) result.text = table.text(session.style());
  result.text += cat(same, " of ", all.size(), " tensors are the same",
                     read == 0 && same > 0 ? ", by their checksums" : "", "\n");
  unread.give(result);
  return result;
}

}  // namespace am::values
