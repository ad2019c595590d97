#include "am/train/replica_check.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/random.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/tensor/checksum.h"
#include "am/train/saved_states.h"

namespace am::train {
namespace {

// Part of a parameter or of an optimizer state. Several ranks hold this part.
struct ReplicatedPart {
  std::string name;
  std::string holders;  // LocalParameter::holders
  uint64_t place = 0;   // hash of name and box: equal on ranks with the same part
  uint64_t values = 0;  // checksum of the part's values
};

std::vector<ReplicatedPart> parts_of(parallel::ParallelModel& model,
                                     const optim::Optimizer& optimizer) {
  std::vector<ReplicatedPart> parts;
  const auto add = [&](const std::string& name, const parallel::LocalParameter& owned,
                       const at::Tensor& value) {
    if (owned.replicas < 2 || !value.defined()) return;
    ReplicatedPart part{name, owned.holders, hash_name(name)};
    for (const Shape& sizes : {owned.box.offset, owned.box.shape}) {
      for (const int64_t size : sizes) {
        part.place = chained(part.place, static_cast<uint64_t>(size));
      }
    }
    part.values = tensor::checksum(value, owned.box, owned.shape);
    parts.push_back(std::move(part));
  };
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
    add(owned.name, owned, owned.value);
  });
  for (const checkpoint::StateTensor& state : saved_states(optimizer, model)) {
    add(state.key, *state.parameter, state.value);
  }
  return parts;
}

// Key: ReplicatedPart::place, or the chained hash of several places. Inner key: hash of the values.
// Value: the ranks that sent this pair of hashes.
using Copies = std::map<uint64_t, std::map<uint64_t, std::vector<int64_t>>>;

// Gathers the pairs [place, hash of the values] of all ranks. `mine`: this rank's pairs.
// Collective.
Copies gather_copies(const parallel::ParallelModel& model, const Json& mine) {
  Copies copies;
  int64_t rank = 0;
  for (const std::string& text : model.mesh().group("world").all_gather_text(mine.dump())) {
    for (const Json& each : Json::parse(text)) copies[each[0]][each[1]].push_back(rank);
    ++rank;
  }
  return copies;
}

// Returns the ranks that do not have the most frequent hash; all ranks if several hashes share the
// highest frequency.
std::vector<int64_t> minority(const Copies::mapped_type& hashes) {
  const auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  const size_t most = std::max_element(hashes.begin(), hashes.end(), fewer)->second.size();
  const auto has_most = [&](const auto& each) { return each.second.size() == most; };
  const bool is_tie = std::count_if(hashes.begin(), hashes.end(), has_most) > 1;
  std::vector<int64_t> ranks;
  for (const auto& [hash, those] : hashes) {
    if (is_tie || those.size() < most) ranks.insert(ranks.end(), those.begin(), those.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

void require_equal_replicas(parallel::ParallelModel& model, const optim::Optimizer& optimizer,
                            int64_t step) {
  const std::vector<ReplicatedPart> parts = parts_of(model, optimizer);
  // Parts with the same holders are first compared together, by one chained hash of their values.
  std::map<std::string, std::pair<uint64_t, uint64_t>> sums;
  for (const ReplicatedPart& part : parts) {
    auto& [place, values] = sums[part.holders];
    place = chained(place, part.place);
    values = chained(values, part.values);
  }
  Json mine = Json::array();
  for (const auto& [holders, sum] : sums) mine.push_back({sum.first, sum.second});
  const Copies first = gather_copies(model, mine);
  const auto differs = [](const Copies::value_type& each) { return each.second.size() > 1; };
  if (std::none_of(first.begin(), first.end(), differs)) return;
  // If the chained hashes of a set of holders differ, these ranks send the hashes of each part.
  Json each = Json::array();
  for (const ReplicatedPart& part : parts) {
    if (first.at(sums.at(part.holders).first).size() > 1) each.push_back({part.place, part.values});
  }
  const Copies copies = gather_copies(model, each);
  // Name of this rank's first tensor whose replicas differ, and the ranks that minority() returns.
  // The error reports the tensor that the lowest rank has found.
  Json name;
  for (const ReplicatedPart& part : parts) {
    const auto found = copies.find(part.place);
    if (found == copies.end() || found->second.size() < 2) continue;
    name = {part.name, minority(found->second)};
    break;
  }
  for (const std::string& text : model.mesh().group("world").all_gather_text(name.dump())) {
    name = Json::parse(text);
    if (!name.is_null()) break;
  }
  throw Error(ErrorKind::kNumeric,
              cat("after step ", step, " the replicas of ", name.at(0).get<std::string>(),
                  " differ, on ", ranks_text(name.at(1).get<std::vector<int64_t>>())),
              "a device is defective, or an operation is not deterministic (set "
              "train.deterministic = true); continue from a checkpoint that was saved with "
              "checkpoint.verify_replicas");
}

}  // namespace am::train
