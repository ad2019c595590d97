#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/checkpoint/row_blocks.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/stored_files.h"
#include "am/inspect/target.h"
#include "am/tensor/dtype.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

using checkpoint::StoredTensor;
using checkpoint::TensorSource;

// Elements of either side that are in memory at once, and become doubles.
constexpr int64_t kDiffBlock = int64_t{1} << 20;

// A parameter of both sides, or of one.
struct Difference {
  std::string name;
  std::string status;
  std::string what;  // the two shapes or dtypes
  bool compared = false;
  // Infinite where one side is NaN, or another infinity.
  double max_abs = 0.0;
  double relative = 0.0;  // |a - b| over the larger of |a| and |b|
};

void compare_block(const at::Tensor& a, const at::Tensor& b, Difference& difference) {
  const at::Tensor left = a.to(at::kDouble), right = b.to(at::kDouble);
  at::Tensor distance = (left - right).abs();
  // Equal infinities, and NaN on both sides, are no difference.
  const at::Tensor same = at::logical_or(left.eq(right), left.isnan().logical_and(right.isnan()));
  distance.masked_fill_(same, 0.0);
  distance.masked_fill_(distance.isnan(), std::numeric_limits<double>::infinity());
  at::Tensor ratio = distance / at::maximum(left.abs(), right.abs());
  ratio.masked_fill_(same, 0.0);
  ratio.masked_fill_(ratio.isnan(), std::numeric_limits<double>::infinity());
  difference.max_abs = std::max(difference.max_abs, distance.max().item<double>());
  difference.relative = std::max(difference.relative, ratio.max().item<double>());
}

void compare_values(const TensorSource& here, const TensorSource& there, const StoredTensor& a,
                    const StoredTensor& b, const Between& between, Difference& difference) {
  difference.compared = true;
  checkpoint::for_each_row_block(mesh::Box::whole(a.shape), kDiffBlock, [&](const mesh::Box& box) {
    if (between) between();
    const at::Tensor left = at::empty(box.shape, at::TensorOptions(a.dtype));
    const at::Tensor right = at::empty(box.shape, at::TensorOptions(b.dtype));
    here.read(a.name, box, left);
    there.read(a.name, box, right);
    compare_block(left, right, difference);
  });
}

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
    compare_values(here, there, a, *b, between, difference);
    if (difference.max_abs > 0) difference.status = "different";
    if (a.dtype != b->dtype) {
      difference.status = "dtype";
      difference.what = cat(tensor::dtype_name(a.dtype), " and ", tensor::dtype_name(b->dtype));
    }
  }
  return difference;
}

// What is not comparable first, then the largest difference.
bool comes_before(const Difference& a, const Difference& b) {
  if (a.compared != b.compared) return !a.compared;
  return a.max_abs > b.max_abs;
}

Json number_or_null(bool compared, double value) {
  return compared && std::isfinite(value) ? Json(value) : Json(nullptr);
}

std::string shown_number(const Difference& difference, double value, int digits) {
  if (!difference.compared) return "-";
  return std::isfinite(value) ? format_general(value, digits) : "not finite";
}

Result run_diff(Session& session, const Arguments& arguments) {
  const TensorSource& here = require_files(session, "diff");
  const Target target = find_target(expand_home(arguments.words.front()));
  if (target.kind != TargetKind::kWeights) {
    throw Error(ErrorKind::kUsage, cat(target.path.string(), " is a plan, not weights at rest"));
  }
  const auto there = checkpoint::open_tensor_source(target.path);
  std::vector<Difference> all;
  for (const StoredTensor& tensor : here.tensors()) {
    all.push_back(difference_of(here, *there, tensor, session.between()));
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
    list.push_back({{"name", each.name},
                    {"status", each.status},
                    {"max_abs", number_or_null(each.compared, each.max_abs)},
                    {"relative", number_or_null(each.compared, each.relative)}});
    if (each.status == "equal") {
      ++equal;
    } else {
      table.add({each.name, each.status, shown_number(each, each.max_abs, digits),
                 shown_number(each, each.relative, digits), each.what});
    }
  }
  result.json["parameters"] = list;
  if (equal < all.size()) result.text = table.text(session.style());
  result.text += cat(equal, " of ", all.size(), " parameters are equal\n");
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
        "Example:  diff runs/quickstart/checkpoints/step-200\n"
        "JSON: parameters, each with name, status (equal, different, dtype, shape, only here, only "
        "there), max_abs,\n"
        "relative; null where they are not finite or there is nothing to compare.",
    .completes = Operand::kPath,
    .min_words = 1,
    .max_words = 1,
    .run = run_diff,
};

}  // namespace am::inspect
