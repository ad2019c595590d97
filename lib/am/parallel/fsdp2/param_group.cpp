#include "am/parallel/fsdp2/param_group.h"

#include <ATen/ATen.h>

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/tensor/memory_meter.h"

namespace am::parallel {

namespace {

using tensor::MemoryUse;
using tensor::TensorUse;

// See Note [Freed storage]. Contents are not kept. (ATen's own resize of a GPU's storage keeps
// them, and lies in libtorch_cuda.)
void resize_storage(const at::Tensor& tensor, size_t bytes) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) return;
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

at::Tensor untracked_alias(const at::Tensor& tensor) { return tensor.variable_data(); }

Shape tail(const Shape& shape) {
  return shape.empty() ? Shape{} : Shape(shape.begin() + 1, shape.end());
}

}  // namespace

ParamGroup::ParamGroup(std::string name, std::vector<nn::ParameterPtr> parameters,
                       std::vector<const planner::ParameterLayout*> layouts,
                       const runtime::DeviceMesh& mesh, at::ScalarType storage_dtype,
                       const Precision& precision)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      shard_group_(mesh.group("dp_shard_cp")),
      replicate_group_(mesh.group("dp_replicate")),
      tp_group_(mesh.group("tp")),
      device_(mesh.device()),
      param_dtype_(precision.param_dtype.value_or(storage_dtype)),
      reduce_dtype_(precision.reduce_dtype.value_or(param_dtype_)),
      aliased_(shard_group_.size() == 1 && param_dtype_ == storage_dtype) {
  int64_t offset = 0;
  for (const auto* layout : layouts) {
    Piece piece;
    piece.full_shape = layout->tp_shape(mesh.layout(), mesh.rank());
    piece.rows = piece.full_shape.empty() ? 1 : piece.full_shape.front();
    piece.row_numel = numel(tail(piece.full_shape));
    piece.flat_offset = offset;
    piece.flat_length = layout->stored_numel(mesh.layout(), mesh.rank());
    piece.grad_sum_over_tp = layout->grad_sum_over_tp;
    offset += piece.flat_length;
    pieces_.push_back(std::move(piece));
  }
  {
    const MemoryUse use(TensorUse::kParameters);
    flat_ = at::zeros({offset}, on_device(storage_dtype));
  }
  for (size_t i = 0; i < layouts.size(); ++i) {
    OwnedParameter owned;
    owned.name = layouts[i]->name;
    owned.shape = layouts[i]->shape;
    owned.box = layouts[i]->box(mesh.layout(), mesh.rank());
    owned.first_replica =
        replicate_group_.index() == 0 && (layouts[i]->tp_dim.has_value() || tp_group_.index() == 0);
    owned_.push_back(std::move(owned));
    owned_.back().value = view_in(flat_, i);
  }
  make_full_tensors();
}

at::TensorOptions ParamGroup::on_device(at::ScalarType dtype) const {
  return at::TensorOptions(dtype).device(device_);
}

void ParamGroup::make_full_tensors() {
  const MemoryUse use(TensorUse::kUnsharded);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    at::Tensor full;
    if (aliased_) {
      full = owned_[i].value.detach();
    } else {
      full = at::empty(pieces_[i].full_shape, on_device(param_dtype_));
      resize_storage(full, 0);
    }
    full.set_requires_grad(true);
    parameters_[i]->value = full;
    full_.push_back(full);
  }
  unsharded_ = aliased_;
}

at::Tensor ParamGroup::view_in(const at::Tensor& flat, size_t i) const {
  return flat.narrow(0, pieces_[i].flat_offset, owned_[i].box.numel()).view(owned_[i].box.shape);
}

void ParamGroup::begin_unshard() {
  if (unsharded_ || gather_output_.defined()) return;
  const at::NoGradGuard no_grad;
  const MemoryUse use(TensorUse::kCommunication);
  gather_input_ = flat_.to(param_dtype_);
  gather_output_ = at::empty({shard_group_.size(), flat_.numel()}, on_device(param_dtype_));
  gathering_ = shard_group_.all_gather_async(gather_output_, gather_input_);
}

void ParamGroup::unshard() {
  if (unsharded_) return;
  begin_unshard();
  gathering_.wait();
  copy_out(gather_output_);
  gather_input_.reset();
  gather_output_.reset();
  unsharded_ = true;
}

// Calls `visit` with the parts of a full tensor, flat, and where they are in [ranks, flat]: all
// whole pieces at once, then the one that is shorter. Pieces after it are empty.
template <typename Visit>
void ParamGroup::for_each_part(const Piece& piece, const at::Tensor& full, const at::Tensor& ranks,
                               const Visit& visit) const {
  if (full.numel() == 0) return;
  const int64_t length = piece.flat_length;
  const int64_t whole = full.numel() / length;
  if (whole > 0) {
    visit(full.narrow(0, 0, whole * length).view({whole, length}),
          ranks.narrow(0, 0, whole).narrow(1, piece.flat_offset, length));
  }
  const int64_t rest = full.numel() - whole * length;
  if (rest == 0) return;
  visit(full.narrow(0, whole * length, rest), ranks[whole].narrow(0, piece.flat_offset, rest));
}

// gathered: [ranks, flat]. Rank r's part of a piece holds rows r*length .. of the full tensor.
void ParamGroup::copy_out(const at::Tensor& gathered) {
  const at::NoGradGuard no_grad;
  const MemoryUse use(TensorUse::kUnsharded);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    resize_storage(full_[i], static_cast<size_t>(full_[i].numel()) * full_[i].element_size());
    const at::Tensor full = untracked_alias(full_[i]).view({piece.rows * piece.row_numel});
    for_each_part(piece, full, gathered, [](const at::Tensor& of_full, const at::Tensor& of_ranks) {
      of_full.copy_(of_ranks);
    });
  }
}

void ParamGroup::reshard() {
  if (aliased_ || !unsharded_) return;
  for (const auto& full : full_) resize_storage(full, 0);
  unsharded_ = false;
}

int64_t ParamGroup::unsharded_bytes() const {
  int64_t bytes = 0;
  if (!aliased_ && unsharded_) {
    for (const auto& full : full_)
      bytes += full.numel() * static_cast<int64_t>(full.element_size());
  }
  return bytes;
}

bool ParamGroup::has_new_gradients() const {
  for (const auto& full : full_) {
    if (full.grad().defined()) return true;
  }
  return false;
}

// The gradients since the last call, joined with what calls without sync left. Undefined where
// there are none.
std::vector<at::Tensor> ParamGroup::take_gradients(bool sync) {
  const MemoryUse use(TensorUse::kUnsharded);
  std::vector<at::Tensor> gradients = std::exchange(accumulated_, {});
  gradients.resize(full_.size());
  for (size_t i = 0; i < full_.size(); ++i) {
    at::Tensor fresh = std::exchange(full_[i].mutable_grad(), at::Tensor());
    if (!fresh.defined()) continue;
    if (gradients[i].defined()) {
      gradients[i].add_(fresh);
    } else {
      gradients[i] = sync ? fresh : fresh.to(reduce_dtype_);
    }
  }
  return gradients;
}

void ParamGroup::sum_over_tp(std::vector<at::Tensor>& gradients) const {
  if (tp_group_.size() == 1) return;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].grad_sum_over_tp || !gradients[i].defined()) continue;
    gradients[i] = gradients[i].to(reduce_dtype_).contiguous();
    tp_group_.all_reduce(gradients[i]);
  }
}

// buffer: [ranks, flat] in the reduce dtype, zeros where there is padding or no gradient.
void ParamGroup::pack(const std::vector<at::Tensor>& gradients, at::Tensor& buffer) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Piece& piece = pieces_[i];
    const at::Tensor gradient = gradients[i].reshape({piece.rows * piece.row_numel});
    for_each_part(
        piece, gradient, buffer,
        [](const at::Tensor& of_full, const at::Tensor& of_ranks) { of_ranks.copy_(of_full); });
  }
}

void ParamGroup::begin_reduce(bool sync) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients = take_gradients(sync);
  if (!sync) {
    accumulated_ = std::move(gradients);
    return;
  }
  finish_reduce();
  const MemoryUse use(TensorUse::kCommunication);
  sum_over_tp(gradients);
  at::Tensor buffer = at::zeros({shard_group_.size(), flat_.numel()}, on_device(reduce_dtype_));
  pack(gradients, buffer);
  if (shard_group_.size() == 1) {
    reduced_ = buffer[0];
    reducing_ = replicate_group_.all_reduce_async(reduced_);
  } else {
    reduced_ = at::empty({flat_.numel()}, on_device(reduce_dtype_));
    reducing_ = shard_group_.reduce_scatter_async(reduced_, buffer);
  }
}

void ParamGroup::finish_reduce() {
  if (!reduced_.defined()) return;
  const at::NoGradGuard no_grad;
  reducing_.wait();
  if (shard_group_.size() > 1) replicate_group_.all_reduce(reduced_);
  if (!flat_grad_.defined()) {
    const MemoryUse use(TensorUse::kGradients);
    flat_grad_ = at::empty_like(flat_);
  }
  if (flat_grad_valid_) {
    flat_grad_.add_(reduced_);
  } else {
    flat_grad_.copy_(reduced_);
  }
  flat_grad_valid_ = true;
  reduced_.reset();
}

void ParamGroup::zero_grad() {
  flat_grad_valid_ = false;
  for (auto& full : full_) full.mutable_grad().reset();
  accumulated_.clear();
}

}  // namespace am::parallel
