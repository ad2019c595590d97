#include <algorithm>
#include <cmath>
#include <mutex>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/rows.h"
#include "am/inspect/stored_files.h"
#include "am/term/table.h"
#include "am/values/commands/registry.h"
#include "am/values/pairs.h"
#include "am/values/two_sources.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

using stored::StoredTensor;
using stored::TensorSource;

// A parameter of both sides, or of one.
struct Difference {
  std::string name;
  std::string status;
  std::string what;  // the two shapes or dtypes
  bool compared = false;
  Distance distance = {};
};

Difference difference_of(const TensorSource& here, const TensorSource& there, const StoredTensor& a,
                         const Between& between) {
  Difference difference{a.name, "equal", {}};
  const StoredTensor* b = there.find(a.name);
  if (b == nullptr) {
    difference.status = "only here";
  } else if (a.shape != b->shape) {
    difference.status = "shape";
    difference.what = cat(shape_text(a.shape), " and ", shape_text(b->shape));
  } else {
    difference.compared = true;
    std::mutex mutex;
    for_each_pair(here, a, there, *b, between,
                  [&](size_t, const at::Tensor& left, const at::Tensor& right) {
                    Distance found;
                    found.add(left, right);
                    const std::lock_guard lock(mutex);
                    difference.distance.add(found);
                    return true;
                  });
    if (difference.distance.max_abs > 0) difference.status = "different";
    if (a.dtype != b->dtype) {
      difference.status = "dtype";
      difference.what = cat(formats::torch_name(a.dtype), " and ", formats::torch_name(b->dtype));
    }
  }
  return difference;
}

// What is not comparable first, then the largest difference.
bool comes_before(const Difference& a, const Difference& b) {
  if (a.compared != b.compared) return !a.compared;
  return a.distance.max_abs > b.distance.max_abs;
}

std::string shown_number(const Difference& difference, double value, int digits) {
  if (!difference.compared) return "-";
  return std::isfinite(value) ? format_general(value, digits) : "not finite";
}

Result run_diff(Session& session, const Arguments& arguments) {
  const TensorSource& here = require_files(session, "diff");
  const auto there = open_weights_at(arguments.words.front());
  std::vector<Difference> all;
  Unread unread(session, here.tensors().size());
  for (const StoredTensor& tensor : here.tensors()) {
    Difference difference{tensor.name, "unreadable", {}};
    unread.read(tensor.name,
                [&] { difference = difference_of(here, *there, tensor, session.between()); });
    all.push_back(std::move(difference));
  }
  for (const StoredTensor& tensor : there->tensors()) {
    if (here.find(tensor.name) == nullptr) all.push_back({tensor.name, "only there", {}});
  }
  std::stable_sort(all.begin(), all.end(), comes_before);

  constexpr auto kRight = term::Align::kRight;
  term::Table table({{"name"}, {"status"}, {"largest", kRight}, {"relative", kRight}, {""}});
  Result result;
  Json list = Json::array();
  size_t equal = 0;
  const int digits = session.digits();
  for (const Difference& each : all) {
    list.push_back(
        {{"name", each.name},
         {"status", each.status},
         {"max_abs", each.compared ? number_or_null(each.distance.max_abs) : Json(nullptr)},
         {"relative", each.compared ? number_or_null(each.distance.relative) : Json(nullptr)}});
    if (each.status == "equal") {
      ++equal;
    } else {
      table.add({each.name, each.status, shown_number(each, each.distance.max_abs, digits),
                 shown_number(each, each.distance.relative, digits), each.what});
    }
  }
  result.json["parameters"] = list;
  if (equal < all.size()) result.text = table.text(session.style());
  result.text += cat(equal, " of ", all.size(), " parameters are equal\n");
  unread.give(result);
  return result;
}

}  // namespace

const Command kDiffCommand = {
    .name = "diff",
    .operands = "TARGET",
    .summary = "how another checkpoint's parameters differ from these",
    .help =
        "Names that one side lacks, shapes, dtypes; of the others the largest |a - b|, and the "
        "largest |a - b| over\n"
        "the larger of |a| and |b|, the most different first. Equal ones are counted. TARGET is "
        "whatever am-repl opens\n"
        "as weights; a few MiB of both are read at a time. Ctrl-C ends it.\n"
        "Example:  diff runs/quickstart/checkpoints/step-200",
    .json =
        "{parameters: [{name: string, status: 'equal' | 'different' | 'dtype' | 'shape' | "
        "'only here' | 'only there' | 'unreadable', max_abs: number | null, relative: number "
        "| null}] (null: not finite, or nothing to compare), unread?: [Unread]}",
    .completes = Operand::kPath,
    .min_words = 1,
    .max_words = 1,
    .run = run_diff,
};

}  // namespace am::values
