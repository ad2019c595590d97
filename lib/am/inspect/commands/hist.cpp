#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/moments.h"
#include "am/term/bars.h"

namespace am::inspect {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

// Blocks keep the double copies small.
constexpr int64_t kHistogramBlock = int64_t{1} << 20;

// A rank that is interrupted leaves the rest undone; then all end here.
void for_each_finite_block(Session& session, const HeldParameter& parameter,
                           const std::function<void(const at::Tensor&)>& visit) {
  session.view().visit_own(parameter, [&](const at::Tensor& part) {
    const at::Tensor flat = part.reshape({-1});
    for (int64_t first = 0; first < flat.numel(); first += kHistogramBlock) {
      if (session.is_interrupted()) return false;
      const at::Tensor block =
          to_numbers(flat.narrow(0, first, std::min(kHistogramBlock, flat.numel() - first)));
      const at::Tensor finite = block.masked_select(at::isfinite(block));
      if (finite.numel() > 0) visit(finite);
    }
    return true;
  });
  session.check_interrupt();
}

Range range_of(Session& session, const HeldParameter& parameter) {
  Range own;
  for_each_finite_block(session, parameter, [&](const at::Tensor& block) {
    own.low = std::min(own.low, block.min().item<double>());
    own.high = std::max(own.high, block.max().item<double>());
  });
  // One reduction for both ends.
  const at::Tensor row = at::tensor({-own.low, own.high}, at::TensorOptions(at::kDouble));
  const at::Tensor ends = std::get<0>(session.view().gather(row).max(0));
  Range range{-ends[0].item<double>(), ends[1].item<double>()};
  if (range.low == range.high) {  // as torch.histogram: a constant gets a bin around it
    range.low -= 0.5;
    range.high += 0.5;
  }
  return range;
}

Result run_hist(Session& session, const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  const HeldParameter& parameter = session.parameter(arguments.words.front());
  const int64_t bins = arguments.integer("--bins", 20, 1, 1000);
  const Range range = range_of(session, parameter);
  if (!std::isfinite(range.low)) {
    throw Error(ErrorKind::kUsage, cat(parameter.name, " has no finite value"));
  }
  at::Tensor own = at::zeros({bins}, at::TensorOptions(at::kDouble));
  for_each_finite_block(session, parameter, [&](const at::Tensor& block) {
    own += at::histc(block, bins, range.low, range.high).cpu();
  });
  const at::Tensor total = session.view().gather(own).sum(0);
  std::vector<int64_t> counts;
  std::vector<double> edges;
  int64_t finite = 0;
  for (int64_t bin = 0; bin < bins; ++bin) {
    counts.push_back(total[bin].item<int64_t>());
    finite += counts.back();
  }
  for (int64_t edge = 0; edge <= bins; ++edge) {
    const double part = static_cast<double>(edge) / static_cast<double>(bins);
    edges.push_back(range.low + (range.high - range.low) * part);
  }
  Result result;
  result.json = {{"name", parameter.name}, {"edges", edges}, {"counts", counts}};
  result.text = term::histogram(counts, range.low, range.high, 40, session.style());
  const int64_t others = parameter.numel() - finite;
  if (others > 0) result.text += cat(format_count(others), " values are NaN or infinite\n");
  return result;
}

}  // namespace

constexpr Option kHistOptions[] = {{"--bins", "N", "how many bins, 1 to 1000; 20"}};

const Command kHistCommand = {
    .name = "hist",
    .operands = "PARAM",
    .summary = "a histogram of its finite values",
    .help =
        "Bins of equal width from the smallest to the largest value. Nothing is gathered: counts "
        "are added over\n"
        "the ranks.\n"
        "Example:  hist model.embed_tokens.weight --bins 40\n"
        "JSON: name, edges (one more than bins), counts.",
    .completes = Operand::kParameter,
    .min_words = 1,
    .max_words = 1,
    .options = kHistOptions,
    .run = run_hist,
};

}  // namespace am::inspect
