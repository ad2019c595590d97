#include "am/train/first_nonfinite.h"

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/tensor/finite.h"
#include "am/train/output_watch.h"

namespace am::train {

namespace {

struct Place {
  int64_t micro_batch = 0;
  int64_t unit = 0;  // index in the order of forward
  int64_t stage = 0;
  std::string name;

  auto order() const { return std::tuple(micro_batch, unit); }
};

}  // namespace

std::string first_nonfinite_output(parallel::ParallelModel& model, BatchSource& batches,
                                   int64_t step, int64_t micro_batches) {
  std::optional<Place> mine;
  std::vector<std::unique_ptr<OutputWatch>> watches;
  for (const auto& [number, stage] : model.stages()) {
    watches.push_back(
        std::make_unique<OutputWatch>(*stage, [&, number = number](const UnitOutput& unit) {
          Place place{unit.call, unit.place, number, unit.name};
          if (mine && mine->order() <= place.order()) return;
          if (!tensor::all_finite(unit.output)) mine = std::move(place);
        }));
  }
  BatchesOfSteps again(batches, step, 1, micro_batches);
  model.forward_only(again);
  Json said;
  if (mine) said = {mine->micro_batch, mine->unit, mine->stage, mine->name};
  const auto all = model.mesh().group("world").all_gather_text(said.dump());
  std::optional<Place> first;
  size_t rank = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    const Json each = Json::parse(all[r]);
    if (each.is_null()) continue;
    Place place{each[0], each[1], each[2], each[3]};
    if (first && first->order() <= place.order()) continue;
    first = std::move(place);
    rank = r;
  }
  if (!first) return {};
  return cat("the output of ", first->name, " in micro-batch ", first->micro_batch, " on rank ",
             rank, " (stage ", first->stage, ")");
}

}  // namespace am::train
