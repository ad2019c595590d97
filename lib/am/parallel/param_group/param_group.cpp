#include "am/parallel/param_group/param_group.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/text.h"
#include "am/layout/quantization.h"
#include "am/runtime/trace_range.h"
#include "am/tensor/finite.h"
#include "am/tensor/memory_meter.h"
#include "am/tensor/nf4.h"
#include "am/tensor/redistribute.h"

namespace am::parallel {

namespace {

using tensor::MemoryUse;
using tensor::SideStream;
using tensor::TensorUse;

// Returns the dtype and device of a group's flat shard and of its flat gradient. If the flat shard
// is quantized, only the device applies to it.
at::TensorOptions storage_options(const ParamGroupOptions& options, at::Device device) {
  const auto stored = at::TensorOptions(options.storage_dtype);
  // Meta tensors stay on the meta device even if offloaded, because they have no contents.
  if (!options.offload || device.is_meta() || device.is_cpu()) return stored.device(device);
  return stored.device(at::kCPU).pinned_memory(options.offload->pin_memory);
}

at::ScalarType param_dtype(const ParamGroupOptions& options) {
  return options.precision.param_dtype.value_or(options.storage_dtype);
}

GradientReducer::Options gradient_options(const ParamGroupOptions& options, at::Device device) {
  GradientReducer::Options gradients;
  gradients.reduce_dtype = options.precision.reduce_dtype.value_or(param_dtype(options));
  gradients.storage = storage_options(options, device);
  gradients.compute = at::TensorOptions(device);
  gradients.pool = options.pool;
  gradients.offloaded = options.offload.has_value();
  gradients.stream = options.reductions;
  return gradients;
}

using Layouts = std::vector<const layout::ParameterLayout*>;

Layouts layouts_of(const std::vector<ParamGroup::Member>& members, bool trained_alone) {
  Layouts layouts;
  for (const auto& member : members) {
    if (member.layout->trainable || !trained_alone) layouts.push_back(member.layout);
  }
  return layouts;
}

// Sorts the members, trainable ones first, and returns their layouts.
Layouts trained_first(std::vector<ParamGroup::Member>& members) {
  std::stable_partition(members.begin(), members.end(),
                        [](const auto& member) { return member.layout->trainable; });
  return layouts_of(members, /*trained_alone=*/false);
}

}  // namespace

// Moves a leaf's gradient to the reducer as soon as autograd has accumulated it.
class ParamGroup::TakeGradient : public torch::autograd::PostAccumulateGradHook {
 public:
  // `name`: the parameter's name in errors about gradients that are not finite; empty: gradients
  // are not checked.
  TakeGradient(GradientReducer& gradients, size_t i, std::string name, int64_t rank)
      : gradients_(gradients), i_(i), name_(std::move(name)), rank_(rank) {}
  void operator()(const at::Tensor& leaf) override {
    const at::Tensor gradient = std::exchange(leaf.mutable_grad(), at::Tensor());
    if (!name_.empty() && !tensor::all_finite(gradient)) report(gradient);
    gradients_.take(i_, gradient);
  }

 private:
  [[noreturn]] void report(const at::Tensor& gradient) const {
    throw Error(ErrorKind::kNumeric,
                cat(at::isfinite(gradient).logical_not().sum().item<int64_t>(), " of ",
                    gradient.numel(), " values in the gradient of ", name_,
                    " are not finite on rank ", rank_, ", before the gradient is reduced"),
                "use a lower learning rate, or set report_nan_in_param_grad = false to continue "
                "nevertheless");
  }

  GradientReducer& gradients_;
  size_t i_;
  std::string name_;
  int64_t rank_;
};

ParamGroup::ParamGroup(std::string name, std::vector<Member> members,
                       const runtime::DeviceMesh& mesh, const ReductionGroups& groups,
                       const ParamGroupOptions& options)
    : name_(std::move(name)),
      shard_group_(*groups.shard),
      pieces_(trained_first(members), mesh.layout(), mesh.rank(), shard_group_.size()),
      trained_(layouts_of(members, /*trained_alone=*/true), mesh.layout(), mesh.rank(),
               shard_group_.size()),
      compute_(at::TensorOptions(param_dtype(options)).device(mesh.device())),
      gathered_(options.quantized ? compute_.dtype(at::kByte) : compute_),
      options_(options),
      aliased_(members.empty() ||
               (shard_group_.size() == 1 && param_dtype(options) == options.storage_dtype &&
                !options.offload && !options.quantized)),
      gradients_(trained_, groups, gradient_options(options, mesh.device())) {
  {
    const MemoryUse use(options_.offload ? TensorUse::kHost : TensorUse::kParameters);
    const at::TensorOptions stored = storage_options(options_, mesh.device());
    flat_ = options_.quantized
                ? at::zeros({layout::nf4_bytes(pieces_.flat_numel())}, stored.dtype(at::kByte))
                : at::zeros({pieces_.flat_numel()}, stored);
  }
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t number = 0; number < pieces_[i].boxes.size(); ++number) {
      const layout::LocalShard& part = pieces_[i].boxes[number].part;
      LocalParameter owned;
      owned.name = members[i].layout->name;
      owned.shape = members[i].layout->shape;
      owned.box = part.box;
      owned.replicas = members[i].layout->tied_copy ? 0 : groups.replicate->size() * part.copies;
      owned.replica = groups.replicate->index() * part.copies + part.copy;
      owned.holders = cat(groups.replicate->name(), " x ", part.copies);
      owned.first_replica = owned.replicas > 0 && owned.replica == 0;
      if (members[i].layout->expert_parallel() && mesh.group("ep").index() > 0 &&
          fault::is_planted(fault::Fault::kNormExperts)) {
        owned.first_replica = false;
      }
      owned.trainable = members[i].layout->trainable;
      owned.piece = i;
      owned.number = number;
      if (!options_.quantized) owned.value = view_in(flat_, owned);
      if (const at::Tensor& value = members[i].parameter->value; value.defined()) {
        const at::NoGradGuard no_grad;
        owned.value.copy_(tensor::view_box(value, Shape(value.dim(), 0), owned.box));
      }
      owned_.push_back(std::move(owned));
    }
  }
  make_full_tensors(members, mesh.rank());
}

// Removes the gradient hooks, which refer to this group, because a layer may hold the full tensors
// longer than the group exists.
ParamGroup::~ParamGroup() {
  for (const auto& leaf : leaves_) torch::autograd::impl::set_post_acc_grad_hooks(leaf, nullptr);
}

void ParamGroup::make_full_tensors(const std::vector<Member>& members, int64_t rank) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    at::Tensor full =
        aliased_ ? pieces_.view(flat_, i).detach() : empty_storage(pieces_[i].full_shape, compute_);
    at::Tensor& value = members[i].parameter->value;
    of_modules_ = value.defined();
    if (!of_modules_) value = full;
    leaves_.push_back(value);
    full_.push_back(std::move(full));
    if (!members[i].layout->trainable) continue;
    value.set_requires_grad(true);
    torch::autograd::impl::set_post_acc_grad_hooks(
        value,
        std::make_unique<TakeGradient>(
            gradients_, i, options_.report_nan ? members[i].layout->name : std::string(), rank));
  }
  unsharded_ = aliased_;
  show_full(unsharded_);
}

void ParamGroup::show_full(bool full) {
  if (!of_modules_) return;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    leaves_[i].set_data(full ? full_[i] : pieces_.view(flat_, i));
  }
}

bool ParamGroup::is_copied_in() const {
  return shard_group_.size() == 1 && options_.offload && options_.gathers != nullptr;
}

void ParamGroup::begin_unshard() {
  if (options_.gathers != nullptr && !unsharded_ && !begun_) options_.gathers->wait_for_current();
  prefetch();
}

void ParamGroup::prefetch() {
  if (unsharded_ || begun_) return;
  if (is_copied_in()) {
    copy_in();
  } else if (shard_group_.size() > 1) {
    gather();
  }
}

// Copies the parameters from host memory on the gather stream. The full tensors' memory belongs to
// the compute stream, so the gather stream first waits for earlier uses of this memory.
void ParamGroup::copy_in() {
  begun_ = true;
  fill_full_tensors();
  options_.gathers->wait_for_current();
  const SideStream::Use stream(options_.gathers);
  copy_out(flat_.view({1, -1}));
}

// Starts the all-gather on the gather stream. The output's memory belongs to the gather stream or,
// with a pool, to the compute stream. The gather stream first waits for the compute stream if there
// is a pool, or if the all-gather reads kept_, which the compute stream writes.
void ParamGroup::gather() {
  begun_ = true;
  const at::NoGradGuard no_grad;
  const MemoryUse use(TensorUse::kCommunication);
  gather_output_ = empty_storage({pieces_.ranks(), flat_.numel()}, gathered_);
  if (options_.pool != nullptr) fill_storage(gather_output_, options_.pool);
  if (options_.gathers != nullptr && (kept_.defined() || options_.pool != nullptr)) {
    options_.gathers->wait_for_current();
  }
  const SideStream::Use stream(options_.gathers);
  fill_storage(gather_output_, options_.pool);
  if (kept_.defined()) {
    gathering_ = options_.post_forward_group->all_gather_async(gather_output_, kept_);
  } else {
    gather_input_ =
        flat_.to(gathered_, /*non_blocking=*/true, /*copy=*/options_.offload.has_value());
    gathering_ = shard_group_.all_gather_async(gather_output_, gather_input_);
  }
}

void ParamGroup::unshard() {
  if (unsharded_) return;
  const runtime::TraceRange range(
      [&] { return cat("unshard ", name_.empty() ? kRootUnit : name_); });
  begin_unshard();
  if (is_copied_in()) {
    options_.gathers->current_waits();
  } else {
    gathering_.wait();
    fill_full_tensors();
    copy_out(begun_ ? gather_output_ : flat_.view({1, -1}));
    if (begun_) end_gather();
  }
  begun_ = false;
  unsharded_ = true;
  show_full(true);
}

void ParamGroup::end_gather() {
  // The shard over the post-forward group is kept only in a forward pass that builds a graph. In
  // backward, nothing is kept, because grad mode is off.
  if (options_.post_forward_group != nullptr && !kept_.defined() && at::GradMode::is_enabled()) {
    const at::NoGradGuard no_grad;
    const MemoryUse use(TensorUse::kUnsharded);
    const runtime::Group& group = *options_.post_forward_group;
    const int64_t rows = pieces_.ranks() / group.size();
    kept_ = gather_output_.narrow(0, group.index() * rows, rows).clone();
  }
  free_gathered();
}

// Frees the memory of the gather's buffers. Dropping the tensors would not free the memory as long
// as the thread of a finished collective holds references. The gather stream waits for the current
// stream, so that later gathers reuse the memory only after the current stream has read it.
void ParamGroup::free_gathered() {
  if (options_.gathers != nullptr) options_.gathers->wait_for_current();
  if (gather_input_.defined() && !gather_input_.is_alias_of(flat_)) {
    free_storage(gather_input_, nullptr);
  }
  free_storage(gather_output_, options_.pool);
  gather_input_.reset();
  gather_output_.reset();
}

void ParamGroup::fill_full_tensors() {
  const MemoryUse use(TensorUse::kUnsharded);
  for (const at::Tensor& full : full_) fill_storage(full, options_.pool);
}

// Copies the gathered shards `ranks` into the full tensors. `ranks` has one row per rank of the
// shard group: that rank's flat shard.
void ParamGroup::copy_out(const at::Tensor& ranks) {
  const at::NoGradGuard no_grad;
  const MemoryUse use(TensorUse::kUnsharded);
  if (options_.quantized) return dequantize(ranks);
  if (pieces_.even()) return copy_out_even(ranks);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    pieces_.for_each_part(i, untracked_alias(full_[i]).view({-1}), ranks,
                          [](const at::Tensor& of_full, const at::Tensor& of_ranks) {
                            of_full.copy_(of_ranks, /*non_blocking=*/true);
                          });
  }
}

// Does the same as copy_out() for pieces without padding (FlatLayout::even), with one kernel launch
// on a GPU.
void ParamGroup::copy_out_even(const at::Tensor& ranks) {
  // With one rank, nothing was gathered, and `ranks` is the stored shard. The shard may be in host
  // memory or differ in dtype from the full tensors; _foreach_copy_ handles both cases.
  const bool alone = pieces_.ranks() == 1;
  std::vector<at::Tensor> full;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const at::Tensor whole = untracked_alias(full_[i]);
    full.push_back(alone ? whole.view({-1})
                         : whole.view({pieces_.ranks(), pieces_.flat_lengths()[i]}));
  }
  if (full.empty()) return;
  if (alone) {
    at::_foreach_copy_(full, ranks[0].split_with_sizes(pieces_.flat_lengths()),
                       /*non_blocking=*/true);
  } else {
    at::split_with_sizes_copy_out(full, ranks, pieces_.flat_lengths(), 1);
  }
}

ParamGroup::Quantized ParamGroup::part_of(const at::Tensor& bytes, const Piece& piece) const {
  const at::Tensor absmax =
      bytes.narrow(1, pieces_.flat_numel() / 2, pieces_.flat_numel() / layout::kNf4Block * 4)
          .view(at::kFloat);
  return {bytes.narrow(1, piece.flat_offset / 2, piece.flat_length / 2),
          absmax.narrow(1, piece.flat_offset / layout::kNf4Block,
                        piece.flat_length / layout::kNf4Block)};
}

// Works like copy_out(), for quantized shards. `ranks`: the bytes of all shards, [ranks, bytes].
void ParamGroup::dequantize(const at::Tensor& ranks) {
  const at::Tensor bytes = ranks.to(compute_.device(), /*non_blocking=*/true);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const Quantized part = part_of(bytes, piece);
    const at::Tensor full = untracked_alias(full_[i]).view({-1});
    if (pieces_.even()) {
      tensor::dequantize_nf4(part.codes, part.absmax, full.view({bytes.size(0), -1}));
      continue;
    }
    for (int64_t rank = 0; rank < bytes.size(0); ++rank) {
      const at::Tensor codes = part.codes.narrow(0, rank, 1);
      const at::Tensor absmax = part.absmax.narrow(0, rank, 1);
      if (piece.outer > 1 && pieces_.ranks() > 1) {
        const at::Tensor values = at::empty({1, piece.flat_length}, compute_);
        tensor::dequantize_nf4(codes, absmax, values);
        full.view({piece.outer, pieces_.ranks(), -1})
            .select(1, rank)
            .copy_(values.view({piece.outer, -1}));
        continue;
      }
      const int64_t first = rank * piece.flat_length;
      const int64_t count = std::min(piece.flat_length, piece.full_numel - first);
      if (count <= 0) break;
      tensor::dequantize_nf4(codes.narrow(1, 0, count / 2),
                             absmax.narrow(1, 0, count / layout::kNf4Block),
                             full.narrow(0, first, count).unsqueeze(0));
    }
  }
}

at::Tensor ParamGroup::magnitudes() const {
  if (!options_.quantized) return flat_;
  return flat_.narrow(0, pieces_.flat_numel() / 2, flat_.numel() - pieces_.flat_numel() / 2)
      .view(at::kFloat);
}

at::Tensor ParamGroup::value_of_piece(size_t piece) const {
  if (!options_.quantized) return pieces_.view(flat_, piece);
  const Quantized part = part_of(flat_.unsqueeze(0), pieces_[piece]);
  const at::Tensor values =
      at::empty({pieces_[piece].flat_length},
                at::TensorOptions(options_.storage_dtype).device(flat_.device()));
  tensor::dequantize_nf4(part.codes, part.absmax, values.unsqueeze(0));
  return pieces_[piece].view_of(values);
}

at::Tensor ParamGroup::value_of(const LocalParameter& owned) const {
  if (!options_.quantized) return owned.value;
  const Piece& piece = pieces_[owned.piece];
  return piece.box_in(value_of_piece(owned.piece), piece.boxes[owned.number]);
}

void ParamGroup::change(const LocalParameter& owned,
                        const std::function<void(at::Tensor&)>& change) {
  if (!options_.quantized) {
    at::Tensor value = owned.value;
    return change(value);
  }
  // Quantizes the whole piece again. A block in which no value has changed keeps its codes and its
  // magnitude: see am/tensor/nf4.h.
  const Piece& piece = pieces_[owned.piece];
  const at::Tensor values = value_of_piece(owned.piece);
  at::Tensor box = piece.box_in(values, piece.boxes[owned.number]);
  change(box);
  const Quantized part = part_of(flat_.unsqueeze(0), piece);
  tensor::quantize_nf4(values.view({-1}), part.codes[0].narrow(0, 0, values.numel() / 2),
                       part.absmax[0].narrow(0, 0, values.numel() / layout::kNf4Block));
}

// Completes a gather that unshard() has not waited for, and frees the gather's result. The current
// stream, and the host if the parameters are offloaded, wait for the gather, because the caller may
// be about to change the parameters' values.
void ParamGroup::drop_gathering() {
  begun_ = false;
  if (is_copied_in()) {
    options_.gathers->current_waits();
    for (const auto& full : full_) free_storage(full, options_.pool);
  } else {
    gathering_.wait();
    free_gathered();
  }
  if (options_.offload && options_.gathers != nullptr) options_.gathers->host_waits();
}

void ParamGroup::reshard() {
  if (begun_) drop_gathering();
  kept_.reset();
  if (!aliased_ && unsharded_) {
    show_full(false);
    for (const auto& full : full_) free_storage(full, options_.pool);
    unsharded_ = false;
  }
}

void ParamGroup::reshard_after_forward() {
  at::Tensor kept = std::exchange(kept_, at::Tensor());
  reshard();
  kept_ = std::move(kept);
}

int64_t ParamGroup::unsharded_bytes() const {
  int64_t bytes = 0;
  if (!aliased_ && unsharded_) {
    for (const auto& full : full_)
      bytes += full.numel() * static_cast<int64_t>(full.element_size());
  }
  return bytes;
}

void ParamGroup::zero_grad() {
  for (auto& leaf : leaves_) leaf.mutable_grad().reset();
  gradients_.zero();
  kept_.reset();
}

}  // namespace am::parallel
