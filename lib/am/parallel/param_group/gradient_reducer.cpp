#include "am/parallel/param_group/gradient_reducer.h"

#include <ATen/ATen.h>

#include <utility>

#include "am/base/fault.h"
#include "am/tensor/memory_meter.h"

namespace am::parallel {

using tensor::MemoryUse;
using tensor::SideStream;
using tensor::TensorUse;

GradientReducer::GradientReducer(const FlatLayout& pieces, const ReductionGroups& groups,
                                 const Options& options)
    : pieces_(pieces),
      shard_group_(*groups.shard),
      replicate_group_(*groups.replicate),
      tp_group_(*groups.tp),
      key_head_group_(groups.key_head),
      options_(options),
      direct_(!options.offloaded &&
              options.reduce_dtype == c10::typeMetaToScalarType(options.storage.dtype())),
      arrived_(pieces.size(), false) {
  if (pieces.size() == 0) make_flat();
}

void GradientReducer::make_flat() {
  if (flat_.defined()) return;
  const MemoryUse use(options_.offloaded ? TensorUse::kHost : TensorUse::kGradients);
  flat_ = at::empty({pieces_.flat_numel()}, options_.storage);
}

void GradientReducer::make_buffer() {
  if (shard_group_.size() == 1 && direct_ && !flat_valid_) {
    make_flat();
    buffer_ = flat_.view({1, -1});
    return;
  }
  const MemoryUse use(TensorUse::kCommunication);
  buffer_ = empty_storage({pieces_.ranks(), pieces_.flat_numel()},
                          options_.compute.dtype(options_.reduce_dtype));
  fill_storage(buffer_, options_.pool);
  pieces_.zero_padding(buffer_);
}

void GradientReducer::take(size_t i, const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  const at::NoGradGuard no_grad;
  finish_reduce();  // a collective may still read the buffer
  if (!buffer_.defined()) make_buffer();
  const bool first = !arrived_[i] || fault::is_planted(fault::Fault::kAccumulateLast);
  pieces_.for_each_part(i, gradient.reshape({-1}), buffer_,
                        [first](const at::Tensor& of_full, const at::Tensor& of_ranks) {
                          if (first) {
                            // On a GPU, the kernel of _foreach_copy_ reads and writes several
                            // elements at once. The kernel of copy_ converts them one by one.
                            at::_foreach_copy_({of_ranks}, {of_full});
                          } else {
                            of_ranks.add_(of_full);
                          }
                        });
  arrived_[i] = true;
  ++new_;
  if (new_ == pieces_.size() && complete_) complete_();
}

void GradientReducer::zero_missing() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!arrived_[i]) {
      buffer_.narrow(1, pieces_[i].flat_offset, pieces_[i].flat_length).zero_();
    }
    arrived_[i] = false;
  }
}

// All-reduces over tp the gradients that are partial sums on each tp rank, in one message for the
// whole unit. A second message sums gradients of key heads that several ranks share, over the
// key-head group.
void GradientReducer::sum_over_tp() {
  if (tp_group_.size() == 1) return;
  sum_over(tp_group_);
  if (fault::is_planted(fault::Fault::kTpKeyHeadSum)) return;
  if (key_head_group_ != nullptr && key_head_group_->size() < tp_group_.size()) {
    sum_over(*key_head_group_);
  }
}

void GradientReducer::sum_over(const runtime::Group& group) {
  std::vector<at::Tensor> parts, flats;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    for (const Piece::Box& box : pieces_[i].boxes) {
      if (box.grad_sum_ranks != group.size()) continue;
      parts.push_back(pieces_.view(reduced_, i, box));
      flats.push_back(parts.back().reshape({-1}));
    }
  }
  if (parts.empty()) return;
  at::Tensor sums = at::cat(flats);
  group.all_reduce(sums);
  int64_t offset = 0;
  std::vector<at::Tensor> summed;
  for (const at::Tensor& part : parts) {
    summed.push_back(sums.narrow(0, offset, part.numel()).view(part.sizes()));
    offset += part.numel();
  }
  at::_foreach_copy_(parts, summed);  // one kernel launch on a GPU
}

// Returns the divisors before and after the reduction. For float16, the factor is split as in
// PyTorch: the first divisor is the smallest power of two that is not below the factor's square
// root.
std::pair<double, double> GradientReducer::divisors() const {
  if (!divide_factor_) return {1.0, 1.0};
  if (options_.reduce_dtype != at::kHalf) return {1.0, *divide_factor_};
  double before = 1.0;
  while (*divide_factor_ / before > before) before *= 2.0;
  return {before, *divide_factor_ / before};
}

bool GradientReducer::begin_reduce() {
  new_ = 0;
  if (!buffer_.defined() || stage_ != Stage::kIdle) return false;
  const at::NoGradGuard no_grad;
  const MemoryUse use(TensorUse::kCommunication);
  zero_missing();
  if (const double before = divisors().first; before != 1.0) buffer_.div_(before);
  // The flat gradient is allocated before the reduction stream waits for the current stream,
  // because work on the current stream may still use the block that the allocator returns.
  make_flat();
  const bool into_flat = shard_group_.size() > 1 && direct_ && !flat_valid_;
  if (options_.stream != nullptr) options_.stream->wait_for_current();
  const SideStream::Use stream(options_.stream);
  if (shard_group_.size() == 1) {
    reduced_ = buffer_.view({-1});
    stage_ = Stage::kAllReducing;
    pending_ = replicate_group_.all_reduce_async(reduced_);
    return true;
  }
  if (into_flat) {
    reduced_ = flat_;
  } else {
    reduced_ = at::empty({pieces_.flat_numel()}, buffer_.options());
  }
  stage_ = Stage::kScattering;
  pending_ = shard_group_.reduce_scatter_async(reduced_, buffer_);
  return true;
}

void GradientReducer::advance_reduce() {
  if (stage_ != Stage::kScattering) return;
  {
    const SideStream::Use stream(options_.stream);
    pending_.wait();
  }
  release_buffer();
  const SideStream::Use stream(options_.stream);
  stage_ = Stage::kAllReducing;
  if (fault::is_planted(fault::Fault::kDpDivide)) reduced_.div_(shard_group_.size());
  if (fault::is_planted(fault::Fault::kHsdpReplicas)) return;
  pending_ = replicate_group_.all_reduce_async(reduced_);
}

void GradientReducer::finish_reduce() {
  if (stage_ == Stage::kIdle) return;
  const at::NoGradGuard no_grad;
  advance_reduce();
  {
    const SideStream::Use stream(options_.stream);
    pending_.wait();
    sum_over_tp();
    if (const double after = divisors().second; after != 1.0) reduced_.div_(after);
    if (!reduced_.is_alias_of(flat_)) add_to_flat();
    flat_valid_ = true;
    reduced_.reset();
  }
  release_buffer();
  stage_ = Stage::kIdle;
}

// Adds the reduced gradient to the flat gradient, or copies it there if the flat gradient has no
// value yet. If the flat gradient is offloaded, the host runs the addition, and first waits for the
// reduction stream.
void GradientReducer::add_to_flat() {
  if (flat_valid_) {
    if (options_.offloaded && options_.stream != nullptr) options_.stream->host_waits();
    flat_.add_(reduced_.to(flat_.device()));
  } else {
    flat_.copy_(reduced_, /*non_blocking=*/options_.stream != nullptr);
  }
}

// Frees the buffer's memory, unless the buffer is the flat gradient. Dropping the tensor would not
// free the memory as long as the thread of a finished collective holds a reference.
void GradientReducer::release_buffer() {
  if (!buffer_.defined()) return;
  const bool is_flat = flat_.defined() && buffer_.is_alias_of(flat_);
  if (!is_flat) {
    if (options_.stream != nullptr) options_.stream->current_waits();
    free_storage(buffer_, options_.pool);
  }
  buffer_.reset();
}

void GradientReducer::zero() {
  finish_reduce();
  release_buffer();
  arrived_.assign(pieces_.size(), false);
  new_ = 0;
  flat_valid_ = false;
  // An offloaded gradient keeps its memory, because pinned host memory is slow to allocate.
  if (!options_.offloaded && pieces_.size() > 0) flat_.reset();
}

}  // namespace am::parallel
