#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/charts.h"
#include "am/term/bars.h"
#include "am/values/commands/functions.h"
#include "am/values/scan.h"

namespace am::values {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

// Calls `visit` with the finite values of each block of the tensor. Skips blocks without finite
// values.
void for_each_finite_block(Session& session, const Picked& picked,
                           const std::function<void(const at::Tensor&)>& visit) {
  scan_on_device(session, picked, [&](const at::Tensor& values, const mesh::Box&) {
    const at::Tensor block = to_numbers(values);
    const at::Tensor finite = block.masked_select(at::isfinite(block));
    if (finite.numel() > 0) visit(finite);
  });
}

Range range_of(Session& session, const Picked& picked) {
  Range own;
  for_each_finite_block(session, picked, [&](const at::Tensor& block) {
    own.low = std::min(own.low, block.min().item<double>());
    own.high = std::max(own.high, block.max().item<double>());
  });
  // The lower bound is negated, so that a single maximum over the ranks reduces both bounds.
  const at::Tensor row = at::tensor({-own.low, own.high}, at::TensorOptions(at::kDouble));
  const at::Tensor ends = std::get<0>(values_of(session).gather(row).max(0));
  Range range{-ends[0].item<double>(), ends[1].item<double>()};
  if (range.low == range.high) {  // as in torch.histogram if all values are equal
    range.low -= 0.5;
    range.high += 0.5;
  }
  return range;
}

struct Histogram {
  Range range;
  std::vector<int64_t> counts;
  std::vector<double> edges;
  int64_t others = 0;  // number of values that are NaN or infinite
};

Histogram histogram_of(Session& session, const Picked& picked, int64_t bins) {
  Histogram histogram;
  histogram.range = range_of(session, picked);
  const auto [low, high] = histogram.range;
  if (!std::isfinite(low)) {
    throw Error(ErrorKind::kUsage, cat(picked.label, " has no finite value"));
  }
  at::Tensor own = at::zeros({bins}, at::TensorOptions(at::kDouble));
  for_each_finite_block(session, picked, [&](const at::Tensor& block) {
    own += at::histc(block, bins, low, high).cpu();
  });
  const at::Tensor total = values_of(session).gather(own).sum(0);
  histogram.others = picked.numel();
  for (int64_t bin = 0; bin < bins; ++bin) {
    histogram.counts.push_back(total[bin].item<int64_t>());
    histogram.others -= histogram.counts.back();
  }
  for (int64_t edge = 0; edge <= bins; ++edge) {
    const double part = static_cast<double>(edge) / static_cast<double>(bins);
    histogram.edges.push_back(low + (high - low) * part);
  }
  return histogram;
}

Result one_histogram(Session& session, const Picked& picked, int64_t bins) {
  const Histogram histogram = histogram_of(session, picked, bins);
  Result result;
  result.json = {{"name", picked.label}, {"edges", histogram.edges}, {"counts", histogram.counts}};
  result.text = term::histogram(histogram.counts, histogram.range.low, histogram.range.high, 40,
                                session.style());
  std::vector<inspect::ChartBar> bars;
  for (size_t bin = 0; bin < histogram.counts.size(); ++bin) {
    bars.push_back({cat(format_general(histogram.edges[bin], 4), " to ",
                        format_general(histogram.edges[bin + 1], 4)),
                    static_cast<double>(histogram.counts[bin]),
                    format_count(histogram.counts[bin])});
  }
  result.svg = inspect::bars_svg(picked.label, bars);
  if (histogram.others > 0) {
    result.text += cat(format_count(histogram.others), " values are NaN or infinite\n");
  }
  return result;
}

// Returns a table with one row per tensor. A row draws the tensor's histogram with one character
// per bin.
Result many_histograms(Session& session, const std::vector<Picked>& all, int64_t bins) {
  Rows rows({{"name", {}, RowKind::kText},
             {"low", "from", RowKind::kNumber},
             {"drawn", "values", RowKind::kText},
             {"high", "to", RowKind::kNumber}});
  Json list = Json::array();
  for (const Picked& picked : all) {
    const Histogram histogram = histogram_of(session, picked, bins);
    list.push_back(
        {{"name", picked.label}, {"edges", histogram.edges}, {"counts", histogram.counts}});
    rows.add({{"name", picked.label},
              {"low", histogram.range.low},
              {"high", histogram.range.high},
              {"drawn", term::columns(histogram.counts, session.style())}});
  }
  Result result;
  rows.give(result, "histograms", session, list);
  return result;
}

}  // namespace

Result run_hist(Session& session, const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  const int64_t bins = arguments.integer("--bins", 20, 1, 1000);
  const std::vector<Picked> all = pick_tensors(session, arguments.words);
  if (all.size() != 1 && arguments.has("--svg")) {
    throw Error(ErrorKind::kUsage, "--svg draws one tensor", "name only one tensor");
  }
  Result result = all.size() == 1 ? one_histogram(session, all.front(), bins)
                                  : many_histograms(session, all, bins);
  write_picture(session, arguments, result);
  return result;
}

}  // namespace am::values
