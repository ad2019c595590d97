#include "am/mesh/cover.h"

#include <algorithm>
#include <vector>

#include "am/base/text.h"

namespace am::mesh {

namespace {

bool lies_inside(const Box& box, std::span<const int64_t> shape) {
  if (box.shape.size() != shape.size() || box.offset.size() != shape.size()) return false;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (box.offset[dim] < 0 || box.shape[dim] < 0 || box.offset[dim] > shape[dim] ||
        box.shape[dim] > shape[dim] - box.offset[dim]) {
      return false;
    }
  }
  return true;
}

// Returns the dim along which the boxes have the most distinct offsets.
size_t widest_dim(std::span<const Box* const> boxes, size_t dims) {
  size_t best = 0;
  size_t most = 0;
  for (size_t dim = 0; dim < dims; ++dim) {
    std::vector<int64_t> starts;
    for (const Box* box : boxes) starts.push_back(box->offset[dim]);
    std::sort(starts.begin(), starts.end());
    const auto distinct =
        static_cast<size_t>(std::unique(starts.begin(), starts.end()) - starts.begin());
    if (distinct > most) {
      most = distinct;
      best = dim;
    }
  }
  return best;
}

std::string box_text(const Box& box) {
  return cat(shape_text(box.shape), " at ", shape_text(box.offset));
}

// Returns a description of two overlapping boxes, or nothing if no boxes overlap. Sorts the boxes
// by their offset in `dim` and sweeps along `dim`. The result is right for every `dim`, but the
// time depends on it.
std::optional<std::string> overlap(std::vector<const Box*>& boxes, size_t dim) {
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box* a, const Box* b) { return a->offset[dim] < b->offset[dim]; });
  std::vector<const Box*> open;
  for (const Box* box : boxes) {
    std::erase_if(open, [&](const Box* other) {
      return other->offset[dim] + other->shape[dim] <= box->offset[dim];
    });
    for (const Box* other : open) {
      if (intersect(*other, *box)) {
        return cat("its parts ", box_text(*other), " and ", box_text(*box), " overlap");
      }
    }
    open.push_back(box);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_not_covered(std::span<const int64_t> shape,
                                           std::span<const Box* const> boxes) {
  int64_t volume = 1;
  for (const int64_t size : shape) {
    if (size < 0) return cat("its shape ", shape_text(shape), " has a negative size");
    if (__builtin_mul_overflow(volume, size, &volume)) {
      return cat("its shape ", shape_text(shape), " has more than 2^63 elements");
    }
  }
  std::vector<const Box*> filled;
  int64_t covered = 0;
  for (const Box* box : boxes) {
    if (!lies_inside(*box, shape)) {
      return cat("its part ", box_text(*box), " is not inside ", shape_text(shape));
    }
    if (box->numel() == 0) continue;
    filled.push_back(box);
    // If the sum overflows an int64, boxes overlap, and the call of overlap() finds two of them.
    if (__builtin_add_overflow(covered, box->numel(), &covered)) covered = volume;
  }
  if (filled.size() > 1) {
    if (shape.empty()) return "it has several parts, but only one element";
    if (auto problem = overlap(filled, widest_dim(filled, shape.size()))) return problem;
  }
  if (covered != volume) {
    return cat("its parts have ", covered, " of its ", volume, " elements");
  }
  return std::nullopt;
}

}  // namespace am::mesh
