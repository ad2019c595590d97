#include "am/values/copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "am/mesh/indices.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/checksum.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::values {
namespace {

// Number of elements per block in find_index(), which gathers the elements of one block from every
// rank.
constexpr int64_t kCompared = int64_t{1} << 16;
// Number of elements that are hashed at a time.
constexpr int64_t kHashed = int64_t{1} << 22;

// Adds the checksum of a part's values to copy.sum. `shape`: shape of the full tensor.
void add_to(Copy& copy, Session& session, const ParameterView::Part& part, const Shape& shape) {
  stored::for_each_row_block(part.box, kHashed, [&](const mesh::Box& block) {
    if (session.is_interrupted()) return;
    copy.sum +=
        tensor::checksum(tensor::view_box(part.values, part.box.offset, block), block, shape);
  });
  session.saw_bytes(static_cast<int64_t>(part.values.nbytes()));
}

// Returns one copy for each stored shard that overlaps the picked slice. The picked tensor must be
// in files. Reads one block at a time.
std::vector<Copy> saved_copies(Session& session, const inspect::Picked& picked) {
  std::vector<Copy> copies;
  for (const HeldShard& shard : picked.parameter->shards) {
    const auto common = mesh::intersect(shard.box, picked.selection.box);
    if (!common) continue;
    Copy copy{shard.rank, *common, 0, true};
    values_of(session).visit_parts(*picked.parameter, *common,
                                   [&](const ParameterView::Part& part) {
                                     add_to(copy, session, part, picked.parameter->shape);
                                     return !session.is_interrupted();
                                   });
    copies.push_back(std::move(copy));
  }
  session.check_interrupt();
  return copies;
}

// Returns one copy for each shard in this rank's memory that overlaps the picked slice. Does not
// set Copy::rank.
std::vector<Copy> own_copies(Session& session, const inspect::Picked& picked) {
  std::vector<Copy> copies;
  values_of(session).visit_parts(*picked.parameter, picked.selection.box,
                                 [&](const ParameterView::Part& part) {
                                   copies.push_back({0, part.box, 0, part.first_replica});
                                   add_to(copies.back(), session, part, picked.parameter->shape);
                                   return !session.is_interrupted();
                                 });
  session.check_interrupt();
  return copies;
}

// Returns this rank's values of the shard `part_box`; undefined if this rank does not store the
// shard.
at::Tensor held_part(Session& session, const inspect::Picked& picked, const mesh::Box& part_box) {
  at::Tensor held;
  values_of(session).visit_parts(*picked.parameter, part_box, [&](const ParameterView::Part& part) {
    if (!(part.box == part_box)) return true;
    held = part.values;
    return false;
  });
  return held;
}

// Returns the values at `box`, which lies in the shard `part_box`. `held`: the result of
// held_part() for this shard. Returns an undefined tensor if `held` is undefined.
at::Tensor values_at(const at::Tensor& held, const mesh::Box& part_box, const mesh::Box& box) {
  return held.defined() ? tensor::view_box(held, part_box.offset, box) : held;
}

using PartKey = std::pair<Shape, Shape>;  // offset and shape of a shard's box
using CopiesOfPart = std::vector<const Copy*>;

// Compares the checksums of all replicas of a shard. Sets `against` to the first rank with the most
// frequent checksum, and `ranks` to the ranks with other checksums. Does not set `index`.
CopyDifference parted(const CopiesOfPart& part) {
  std::map<uint64_t, int64_t> votes;
  for (const Copy* copy : part) ++votes[copy->sum];
  const Copy* most = part.front();
  for (const Copy* copy : part) {
    if (votes[copy->sum] > votes[most->sum]) most = copy;
  }
  CopyDifference difference;
  difference.against = most->rank;
  for (const Copy* copy : part) {
    if (copy->sum != most->sum) difference.ranks.push_back(copy->rank);
  }
  return difference;
}

// Returns the first column of `all`, [ranks, n], in which the row of any rank in difference.ranks
// differs from the row of rank difference.against. Returns n if all these rows are equal.
int64_t first_unequal(const at::Tensor& all, const CopyDifference& difference) {
  int64_t first = all.size(1);
  for (const int64_t rank : difference.ranks) {
    const at::Tensor unequal = all[rank].ne(all[difference.against]);
    if (!unequal.any().item<bool>()) continue;
    first = std::min(first, unequal.to(at::kByte).argmax().item<int64_t>());
  }
  return first;
}

// Sets difference.index. Finds the first block of rows with different checksums, and then the first
// different element in this block. Collective.
void find_index(Session& session, const inspect::Picked& picked, const mesh::Box& part_box,
                CopyDifference& difference) {
  const Shape& shape = picked.parameter->shape;
  std::vector<mesh::Box> blocks;
  std::vector<int64_t> sums;
  const at::Tensor held = held_part(session, picked, part_box);
  stored::for_each_row_block(part_box, kCompared, [&](const mesh::Box& block) {
    const at::Tensor own = values_at(held, part_box, block);
    blocks.push_back(block);
    sums.push_back(own.defined() ? static_cast<int64_t>(tensor::checksum(own, block, shape)) : 0);
  });
  const at::Tensor all =
      values_of(session).gather(at::tensor(sums, at::TensorOptions(at::kLong))).contiguous();
  const int64_t which = first_unequal(all, difference);
  if (which == all.size(1))
    return;  // the values have changed since copies_of() ran, and are equal now
  const mesh::Box& block = blocks[static_cast<size_t>(which)];
  const at::Tensor own = values_at(held, part_box, block);
  const int64_t words =
      block.numel() * (c10::isComplexType(tensor::scalar_type(picked.parameter->dtype)) ? 2 : 1);
  const at::Tensor bits =
      own.defined() ? tensor::bits_of(own) : at::zeros({words}, at::TensorOptions(at::kLong));
  const int64_t word = first_unequal(values_of(session).gather(bits.contiguous()), difference);
  difference.index =
      mesh::coordinates_of(mesh::flat_index(block, shape, word * block.numel() / words), shape);
}

}  // namespace

std::vector<Copy> copies_of(Session& session, const inspect::Picked& picked) {
  const at::NoGradGuard no_grad;
  if (session.view().at_rest()) return saved_copies(session, picked);
  const std::vector<Copy> own = own_copies(session, picked);
  const auto dims = static_cast<int64_t>(picked.parameter->shape.size());
  // A copy is packed into integers: the box's offset and shape, sum, first, and a 1 that
  // distinguishes the copy from padding.
  const int64_t words = 2 * dims + 3;
  const auto count = static_cast<int64_t>(own.size());
  int64_t most = 0;
  for (const auto& rank : session.view().gather_numbers({count})) most = std::max(most, rank[0]);
  std::vector<int64_t> packed;
  for (const Copy& copy : own) {
    packed.insert(packed.end(), copy.box.offset.begin(), copy.box.offset.end());
    packed.insert(packed.end(), copy.box.shape.begin(), copy.box.shape.end());
    packed.insert(packed.end(), {static_cast<int64_t>(copy.sum), copy.first ? 1 : 0, 1});
  }
  packed.resize(static_cast<size_t>(words * most), 0);
  const at::Tensor all =
      values_of(session).gather(at::tensor(packed, at::TensorOptions(at::kLong))).contiguous();
  std::vector<Copy> copies;
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    for (int64_t i = 0; i < most; ++i) {
      const int64_t* word = all.const_data_ptr<int64_t>() + rank * words * most + i * words;
      if (word[2 * dims + 2] == 0) continue;
      const mesh::Box box{Shape(word, word + dims), Shape(word + dims, word + 2 * dims)};
      copies.push_back({rank, box, static_cast<uint64_t>(word[2 * dims]), word[2 * dims + 1] != 0});
    }
  }
  return copies;
}

std::optional<CopyDifference> first_difference(Session& session, const inspect::Picked& picked,
                                               const std::vector<Copy>& copies) {
  const at::NoGradGuard no_grad;
  std::map<PartKey, CopiesOfPart> parts;
  for (const Copy& copy : copies) parts[{copy.box.offset, copy.box.shape}].push_back(&copy);
  for (const auto& [key, part] : parts) {
    CopyDifference difference = parted(part);
    if (difference.ranks.empty()) continue;
    find_index(session, picked, part.front()->box, difference);
    return difference;
  }
  return std::nullopt;
}

}  // namespace am::values
