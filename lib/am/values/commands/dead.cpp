#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/mesh/indices.h"
#include "am/values/commands/functions.h"
#include "am/values/moments.h"
#include "am/values/scan.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

constexpr size_t kNamedIndices = 10;

// Summaries of the rows and columns of a tensor that is viewed as a matrix. The row index of the
// matrix combines all dims of the tensor except the last.
struct LinesSeen {
  // For each row: 0 if no value was read, 1 if all values that were read are zero, otherwise 2.
  at::Tensor rows;
  // Smallest and largest value of each column. A column from which no value was read has infinity
  // and -infinity. A column with a NaN has -infinity and infinity, so the column is not reported as
  // constant.
  at::Tensor lowest;
  at::Tensor highest;
};

// Returns the summaries over the values that all ranks have read. Collective.
LinesSeen lines_of(Session& session, const Picked& picked) {
  const Shape& shape = picked.parameter->shape;
  const int64_t width = shape.back();
  const int64_t height = width == 0 ? 0 : picked.parameter->numel() / width;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto of_double = at::TensorOptions(at::kDouble);
  LinesSeen own{at::zeros({height}, of_double), at::full({width}, kInfinity, of_double),
                at::full({width}, -kInfinity, of_double)};
  const std::span<const int64_t> leading = std::span(shape).first(shape.size() - 1);
  scan(session, picked, [&](const at::Tensor& block, const mesh::Box& box) {
    const mesh::Box above{Shape(box.offset.begin(), box.offset.end() - 1),
                          Shape(box.shape.begin(), box.shape.end() - 1)};
    const at::Tensor values = to_numbers(block).reshape({-1, box.shape.back()});
    const at::Tensor alive = values.ne(0.0).any(1).to(at::kDouble) + 1.0;
    for (int64_t row = 0; row < values.size(0); ++row) {
      auto* seen = own.rows.data_ptr<double>() + mesh::flat_index(above, leading, row);
      *seen = std::max(*seen, alive.const_data_ptr<double>()[row]);
    }
    at::Tensor low = own.lowest.narrow(0, box.offset.back(), box.shape.back());
    at::Tensor high = own.highest.narrow(0, box.offset.back(), box.shape.back());
    const at::Tensor is_bad = values.isnan().any(0);
    low.copy_(at::minimum(low, values.amin(0)).masked_fill(is_bad, -kInfinity));
    high.copy_(at::maximum(high, values.amax(0)).masked_fill(is_bad, kInfinity));
  });
  const at::Tensor all = values_of(session).gather(at::cat({own.rows, -own.lowest, own.highest}));
  const at::Tensor most = std::get<0>(all.max(0));
  return {most.narrow(0, 0, height), -most.narrow(0, height, width),
          most.narrow(0, height + width, width)};
}

std::vector<int64_t> indices_where(const at::Tensor& mask) {
  const at::Tensor found = mask.nonzero().reshape({-1}).contiguous();
  return {found.const_data_ptr<int64_t>(), found.const_data_ptr<int64_t>() + found.numel()};
}

Json first_indices(std::vector<int64_t> all) {
  all.resize(std::min(all.size(), kNamedIndices));
  return all;
}

std::string counted(const Json& first, int64_t count) {
  if (count == 0) return "0";
  std::vector<int64_t> shown = first.get<std::vector<int64_t>>();
  shown.resize(std::min<size_t>(shown.size(), 4));
  const bool more = count > static_cast<int64_t>(shown.size());
  return cat(format_count(count), ": ", join(shown, ", "), more ? ", .." : "");
}

}  // namespace

Result run_dead(Session& session, const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  Rows rows({{"name", {}, RowKind::kText},
             {"shape", {}, RowKind::kText},
             {"rows_text", "zero rows", RowKind::kText},
             {"columns_text", "constant columns", RowKind::kText}});
  Json list = Json::array();
  int64_t looked_at = 0;
  const std::vector<Picked> all = pick_all(session, arguments.words);
  Unread unread(session, all.size());
  session.expect_bytes(bytes_of(all));
  for (const Picked& picked : all) {
    if (picked.parameter->shape.size() < 2) {
      session.saw_bytes(picked.bytes());
      continue;
    }
    LinesSeen seen;
    if (!unread.read(picked.label, [&] { seen = lines_of(session, picked); })) continue;
    ++looked_at;
    const auto zero_rows = indices_where(seen.rows.eq(1.0));
    // If values of only one row were read, every column would be reported as constant.
    const bool several = seen.rows.gt(0.0).sum().item<int64_t>() > 1;
    const auto constant = several ? indices_where(seen.lowest.eq(seen.highest)) : Shape{};
    if (zero_rows.empty() && constant.empty()) continue;
    Json row = {{"name", picked.label},
                {"shape", picked.parameter->shape},
                {"zero_rows", zero_rows.size()},
                {"first_zero_rows", first_indices(zero_rows)},
                {"constant_columns", constant.size()},
                {"first_constant_columns", first_indices(constant)}};
    list.push_back(row);
    row["rows_text"] = counted(row["first_zero_rows"], row["zero_rows"]);
    row["columns_text"] = counted(row["first_constant_columns"], row["constant_columns"]);
    rows.add(std::move(row));
  }
  Result result;
  rows.give(result, "parameters", session, list);
  if (list.empty()) result.text.clear();
  result.json["looked_at"] = looked_at;
  result.text += cat(list.empty() ? "none" : std::to_string(list.size()), " of ", looked_at,
                     looked_at == 1 ? " matrix" : " matrices", list.size() < 2 ? " has" : " have",
                     " rows of zeros or columns of one value\n");
  unread.give(result);
  return result;
}

}  // namespace am::values
