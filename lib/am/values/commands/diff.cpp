#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/layers.h"
#include "am/term/table.h"
#include "am/values/commands/by_layer.h"
#include "am/values/commands/functions.h"
#include "am/values/pairs.h"
#include "am/values/two_sources.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

using stored::StoredTensor;

// Comparison of one parameter, which may be missing on one of the two sides, or of all parameters
// of a layer.
struct Difference {
  std::string name;
  std::string status;
  // Details of the status: the two shapes or dtypes that differ. For a layer, the number of
  // parameters in the layer that are not equal, for example "2 of 9".
  std::string what;
  bool compared = false;  // whether values were compared; otherwise `distance` is not set
  Distance distance = {};
};

// Statuses, the most severe first. The status of a layer is the most severe status of its
// parameters.
constexpr std::string_view kWorstFirst[] = {"unreadable", "only here", "only there", "shape",
                                            "dtype",      "different", "equal"};

size_t place_of(std::string_view status) {
  return static_cast<size_t>(std::find(std::begin(kWorstFirst), std::end(kWorstFirst), status) -
                             std::begin(kWorstFirst));
}

// Combines the comparisons of parameters. Returns one comparison per layer, in the order in which
// layers first appear.
std::vector<Difference> by_layers(const std::vector<Difference>& all) {
  struct Counts {
    size_t tensors = 0, unequal = 0;
  };
  std::vector<Difference> layers;
  std::vector<Counts> counts;
  std::map<std::string, size_t> places;
  for (const Difference& each : all) {
    const auto [place, is_new] = places.emplace(inspect::layer_of(each.name), layers.size());
    if (is_new) {
      layers.push_back({place->first, "equal", {}});
      counts.emplace_back();
    }
    Difference& layer = layers[place->second];
    if (place_of(each.status) < place_of(layer.status)) layer.status = each.status;
    layer.compared = layer.compared || each.compared;
    layer.distance.add(each.distance);
    ++counts[place->second].tensors;
    if (each.status != "equal") ++counts[place->second].unequal;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].what = cat(counts[i].unequal, " of ", counts[i].tensors);
  }
  return layers;
}

// Compares the tensor `a` of `here` with the tensor of the same name in `there`. If one side is a
// model in the memory of ranks, the distance covers only this rank's parts of the tensor.
Difference difference_of(Session& session, const Side& here, const Side& there,
                         const StoredTensor& a) {
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
    for_each_pair(session, here, a, there, *b,
                  [&](size_t, const at::Tensor& left, const at::Tensor& right) {
                    Distance found;
                    found.add(left, right);
                    const std::lock_guard lock(mutex);
                    difference.distance.add(found);
                    return true;
                  });
    if (a.dtype != b->dtype) {
      difference.status = "dtype";
      difference.what = cat(formats::torch_name(a.dtype), " and ", formats::torch_name(b->dtype));
    }
  }
  return difference;
}

// Returns whether `a` is listed before `b`. Parameters that could not be compared are listed first.
// The compared parameters follow in descending order of their largest difference.
bool comes_before(const Difference& a, const Difference& b) {
  if (a.compared != b.compared) return !a.compared;
  return a.distance.max_abs > b.distance.max_abs;
}

std::string shown_number(const Difference& difference, double value, int digits) {
  if (!difference.compared) return "-";
  return std::isfinite(value) ? format_general(value, digits) : "not finite";
}

}  // namespace

Result run_diff(Session& session, const Arguments& arguments) {
  const bool folded = by_layer(arguments);
  ParameterView& view = values_of(session);
  std::vector<Difference> all;
  std::optional<Unread> unread;
  const auto compare = [&] {
    const Side here = arguments.words.size() > 1 ? Side::at(session.path(arguments.words.front()))
                                                 : opened(session);
    const Side there = Side::at(session.path(arguments.words.back()));
    unread.emplace(session, here.tensors().size());
    session.expect_bytes(bytes_of(here));
    std::vector<double> distances;
    for (const StoredTensor& tensor : here.tensors()) {
      Difference difference{tensor.name, "unreadable", {}};
      unread->read(tensor.name, [&] { difference = difference_of(session, here, there, tensor); });
      if (!difference.compared) session.saw_bytes(tensor.bytes());
      distances.push_back(difference.distance.max_abs);
      distances.push_back(difference.distance.relative);
      all.push_back(std::move(difference));
    }
    for (const StoredTensor& tensor : there.tensors()) {
      if (here.find(tensor.name) == nullptr) all.push_back({tensor.name, "only there", {}});
    }
    return distances;
  };
  for (const std::vector<double>& rank : on_all_ranks(view, compare)) {
    for (size_t i = 0; i < rank.size() / 2; ++i) {
      all[i].distance.add({.max_abs = rank[2 * i], .relative = rank[2 * i + 1]});
    }
  }
  session.check_interrupt();
  for (Difference& each : all) {
    if (each.status == "equal" && each.distance.max_abs > 0) each.status = "different";
  }
  if (folded) all = by_layers(all);
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
  result.table = {.columns = {{"name"},
                              {"status"},
                              {"max_abs", "largest", RowKind::kNumber},
                              {"relative", {}, RowKind::kNumber}},
                  .digits = digits};
  if (equal < all.size()) result.text = table.text(session.style());
  result.text +=
      cat(equal, " of ", all.size(), folded ? " layers are equal\n" : " parameters are equal\n");
  unread->give(result);
  return result;
}

}  // namespace am::values
