#include <ATen/ATen.h>

#include <limits>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/mesh/indices.h"
#include "am/values/commands/functions.h"
#include "am/values/scan.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

// Counts of the non-finite values of one tensor, on one rank or summed over all ranks.
struct BadValues {
  int64_t nan = 0;
  int64_t inf = 0;
  // Row-major index of the first non-finite value in the full tensor. Keeps this default if all
  // values are finite.
  int64_t first = std::numeric_limits<int64_t>::max();
};

BadValues bad_values(Session& session, const Picked& picked) {
  BadValues own;
  scan_on_device(session, picked, [&](const at::Tensor& stored, const mesh::Box& box) {
    if (c10::isIntegralType(stored.scalar_type(), true)) return;
    const at::Tensor block = to_numbers(stored);
    const at::Tensor finite = at::isfinite(block).reshape({-1});
    if (finite.all().item<bool>()) return;
    const at::Tensor bad = finite.logical_not();
    const int64_t nan = at::isnan(block).sum().item<int64_t>();
    own.nan += nan;
    own.inf += bad.sum().item<int64_t>() - nan;
    const int64_t local = bad.to(at::kByte).argmax().item<int64_t>();
    own.first = std::min(own.first, mesh::flat_index(box, picked.parameter->shape, local));
  });
  const at::Tensor row = at::tensor({own.nan, own.inf, own.first}, at::TensorOptions(at::kLong));
  const at::Tensor all = values_of(session).gather(row);
  return {all.select(1, 0).sum().item<int64_t>(), all.select(1, 1).sum().item<int64_t>(),
          all.select(1, 2).min().item<int64_t>()};
}

}  // namespace

Result run_nan(Session& session, const Arguments& arguments) {
  Rows rows({{"name", {}, RowKind::kText},
             {"nan", {}, RowKind::kCount},
             {"inf", {}, RowKind::kCount},
             {"first", {}, RowKind::kText}});
  const std::vector<Picked> all = pick_all(session, arguments.words);
  int64_t elements = 0;
  size_t looked_at = 0;
  Unread unread(session, all.size());
  session.expect_bytes(bytes_of(all));
  for (const Picked& picked : all) {
    BadValues bad;
    if (!unread.read(picked.label, [&] { bad = bad_values(session, picked); })) continue;
    ++looked_at;
    elements += picked.numel();
    if (bad.nan + bad.inf == 0) continue;
    rows.add({{"name", picked.label},
              {"nan", bad.nan},
              {"inf", bad.inf},
              {"first", mesh::coordinates_of(bad.first, picked.parameter->shape)}});
  }
  Result result;
  rows.give(result, "parameters", session);
  const size_t affected = rows.list().size();
  if (affected == 0) result.text.clear();
  result.failed = affected > 0 && arguments.has("--strict");
  result.json["looked_at"] = looked_at;
  result.text += cat(affected == 0 ? "none" : std::to_string(affected), " of ", looked_at,
                     looked_at == 1 ? " tensor, " : " tensors, ", format_count(elements),
                     affected < 2 ? " values, has" : " values, have", " NaN or infinities\n");
  unread.give(result);
  return result;
}

}  // namespace am::values
