#include "am/cuda/kernel_launches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

namespace am::cuda {
namespace {

std::atomic<Launch>& launcher() {
  static std::atomic<Launch> launch = nullptr;
  return launch;
}

// Launches the kernel `name`. Returns false if the kernel is not available or the grid is too
// large.
template <typename... Arguments>
bool start(Part part, const at::Tensor& on, const char* name, const Grid& grid,
           Arguments... arguments) {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
  if (grid.blocks > kMostBlocks) return false;
  std::array<void*, sizeof...(Arguments)> pointers = {&arguments...};
  return launcher().load()(part, on, name, grid, pointers.data());
}

constexpr int64_t kPackBytes = 16;

bool aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kPackBytes == 0;
}

template <typename... Tensors>
bool dense_packs(const Tensors&... all) {
  return ((all.is_contiguous() && aligned(all)) && ...);
}

// Returns a grid with one thread for each pack (16 bytes) of x.
Grid packs_of(const at::Tensor& x) {
  const int64_t lanes = kPackBytes / x.element_size();
  const int64_t packs = (x.numel() + lanes - 1) / lanes;
  constexpr int kThreads = 256;
  return {.blocks = (packs + kThreads - 1) / kThreads, .threads = kThreads};
}

constexpr int kRowThreads = 512;

bool logit_sums(const at::Tensor& maximum_N, const at::Tensor& exponentials_N,
                const at::Tensor& label_N, const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                int64_t first) {
  return start(Part::kOperators, logits_Nv, "logit_sums", {logits_Nv.size(0), kRowThreads},
               maximum_N.mutable_data_ptr<float>(), exponentials_N.mutable_data_ptr<float>(),
               label_N.mutable_data_ptr<float>(), logits_Nv.const_data_ptr(),
               labels_N.const_data_ptr<int64_t>(), logits_Nv.size(1), first);
}

bool cross_entropy_gradient(const at::Tensor& out_Nv, const at::Tensor& logits_Nv,
                            const at::Tensor& sums_N, const at::Tensor& labels_N, int64_t first,
                            int64_t ignored, const at::Tensor& scale) {
  return start(Part::kOperators, logits_Nv, "cross_entropy_gradient",
               {logits_Nv.size(0), kRowThreads}, out_Nv.mutable_data_ptr(),
               logits_Nv.const_data_ptr(), sums_N.const_data_ptr<float>(),
               labels_N.const_data_ptr<int64_t>(), scale.const_data_ptr<float>(), logits_Nv.size(1),
               first, ignored);
}

// Returns the name of the forward or backward kernel; null for an activation without a kernel.
const char* name_of(model::Activation activation, bool backward) {
  switch (activation) {
    case model::Activation::kSilu:
      return backward ? "gated_gradients_silu" : "gated_silu";
    case model::Activation::kGeluTanh:
      return backward ? "gated_gradients_gelu_tanh" : "gated_gelu_tanh";
    case model::Activation::kGeluErf:
      return backward ? "gated_gradients_gelu_erf" : "gated_gelu_erf";
    case model::Activation::kRelu:
    case model::Activation::kRelu2:
    case model::Activation::kClampedSilu:
    case model::Activation::kOther:
      break;
  }
  return nullptr;
}

bool gated(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& up,
           model::Activation activation) {
  const char* name = name_of(activation, /*backward=*/false);
  return name != nullptr && dense_packs(y, gate, up) &&
         start(Part::kOperators, y, name, packs_of(y), y.mutable_data_ptr(), gate.const_data_ptr(),
               up.const_data_ptr(), y.numel());
}

bool gated_gradients(const at::Tensor& of_gate, const at::Tensor& of_up, const at::Tensor& gradient,
                     const at::Tensor& gate, const at::Tensor& up, model::Activation activation) {
  const char* name = name_of(activation, /*backward=*/true);
  return name != nullptr && dense_packs(of_gate, of_up, gradient, gate, up) &&
         start(Part::kOperators, gate, name, packs_of(gate), of_gate.mutable_data_ptr(),
               of_up.mutable_data_ptr(), gradient.const_data_ptr(), gate.const_data_ptr(),
               up.const_data_ptr(), gate.numel());
}

// Division of rows among threads. A team of `team` threads computes each row. The team reads the
// row in packs of 16 bytes or, if `in_packs` is false, element by element.
struct Rows {
  bool in_packs = false;
  int team = 1;
  Grid grid;
};

// Divides `rows` rows of `width` elements among teams (kernels/rms_norm.cu) of up to 512 threads. A
// thread reads up to two packs of `lanes` elements, or two elements if `in_packs` is false; it
// reads more only in rows that are too wide for 512 threads. `in_packs`: whether all rows consist
// of whole packs at multiples of 16 bytes.
Rows teams_of(int64_t rows, int64_t width, bool in_packs, int64_t lanes) {
  constexpr int64_t kKept = 2, kMost = 512, kSmallBlock = 128;
  const int64_t reads = in_packs ? width / lanes : width;
  const int64_t threads = std::clamp<int64_t>((reads + kKept - 1) / kKept, 1, kMost);
  int64_t team = 1;
  while (team < std::min<int64_t>(threads, 32)) team *= 2;
  if (threads > 32) team = (threads + 31) / 32 * 32;
  const int64_t block = std::max(team, team <= 32 ? kSmallBlock : team);
  const int64_t of_block = block / team;
  return {in_packs,
          static_cast<int>(team),
          {.blocks = (rows + of_block - 1) / of_block, .threads = static_cast<int>(block)}};
}

int number_of(model::NormKind kind) { return static_cast<int>(kind); }

float reciprocal(int64_t width) { return static_cast<float>(1.0 / static_cast<double>(width)); }

const void* pointer(const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }
void* pointer_to_write(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr() : nullptr; }

// Whether each row of these dense tensors consists of whole packs at multiples of 16 bytes.
// `width`: number of elements in a row. Undefined tensors are ignored.
template <typename... Tensors>
bool rows_in_packs(int64_t width, const at::Tensor& x, const Tensors&... all) {
  const int64_t lanes = kPackBytes / x.element_size();
  return width % lanes == 0 && aligned(x) && ((!all.defined() || aligned(all)) && ...);
}

bool is_dense(const at::Tensor& x) { return !x.defined() || x.is_contiguous(); }

bool rms_norm(const at::Tensor& y, const at::Tensor& inverse, const at::Tensor& sum,
              const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight_D,
              double eps, model::NormKind kind) {
  const int64_t width = weight_D.numel(), rows = inverse.numel();
  for (const at::Tensor& each : {y, inverse, sum, x, residual, weight_D}) {
    if (!is_dense(each)) return false;
  }
  const bool in_packs = rows_in_packs(width, x, y, sum, residual, weight_D);
  const Rows teams = teams_of(rows, width, in_packs, kPackBytes / x.element_size());
  return start(Part::kNorms, x, in_packs ? "rms_norm" : "rms_norm_by_one", teams.grid,
               y.mutable_data_ptr(), inverse.mutable_data_ptr<float>(), pointer_to_write(sum),
               x.const_data_ptr(), pointer(residual), weight_D.const_data_ptr(), rows, width,
               reciprocal(width), static_cast<float>(eps), teams.team, number_of(kind));
}

bool rms_norm_gradients(const at::Tensor& of_x, const at::Tensor& of_weight_D,
                        const at::Tensor& of_y, const at::Tensor& of_sum, const at::Tensor& x,
                        const at::Tensor& inverse, const at::Tensor& weight_D,
                        model::NormKind kind) {
  const int64_t width = weight_D.numel(), rows = inverse.numel();
  for (const at::Tensor& each : {of_x, of_weight_D, of_y, of_sum, x, inverse, weight_D}) {
    if (!is_dense(each)) return false;
  }
  // Number of rows in each partial sum of the weight's gradient: 16, or more if 16 would result in
  // over 1024 sums.
  const int64_t of_a_sum = std::max<int64_t>(16, (rows + 1023) / 1024);
  const int64_t sums = (rows + of_a_sum - 1) / of_a_sum;
  const bool in_packs = rows_in_packs(width, x, of_x, of_y, of_sum, weight_D);
  const Rows teams = teams_of(sums, width, in_packs, kPackBytes / x.element_size());
  at::Tensor partial_SD;
  if (of_weight_D.defined()) partial_SD = at::empty({sums, width}, inverse.options());
  if (!start(Part::kNorms, x, in_packs ? "rms_norm_gradients" : "rms_norm_gradients_by_one",
             teams.grid, of_x.mutable_data_ptr(), pointer_to_write(partial_SD),
             of_y.const_data_ptr(), pointer(of_sum), x.const_data_ptr(),
             inverse.const_data_ptr<float>(), weight_D.const_data_ptr(), rows, width,
             reciprocal(width), static_cast<int>(of_a_sum), teams.team, number_of(kind))) {
    return false;
  }
  return !of_weight_D.defined() ||
         start(Part::kNorms, x, "rms_norm_weight_gradient", {(width + 31) / 32, 1024},
               of_weight_D.mutable_data_ptr(), partial_SD.const_data_ptr<float>(), sums, width);
}

bool drop(const at::Tensor& out_NI, const at::Tensor& x_NI, const at::Tensor& rows_N,
          int64_t first_column, double p, uint64_t key) {
  if (!out_NI.is_contiguous() || !x_NI.is_contiguous()) return false;
  const double exact = p < 1.0 ? 1.0 / (1.0 - p) : 0.0;
  const auto factor = at::scalar_tensor(exact, x_NI.scalar_type()).item<float>();
  return start(Part::kOperators, x_NI, "drop", {x_NI.size(0), 256}, out_NI.mutable_data_ptr(),
               x_NI.const_data_ptr(), rows_N.const_data_ptr<int64_t>(), x_NI.size(1), first_column,
               key, static_cast<uint32_t>(std::lround(p * 65536.0)), factor);
}

bool sum_of_rows(const at::Tensor& sum_ND, const at::Tensor& rows_RD, const at::Tensor& slot_Nk,
                 const at::Tensor& added_ND) {
  for (const at::Tensor& each : {sum_ND, rows_RD, slot_Nk, added_ND}) {
    if (!is_dense(each)) return false;
  }
  const int64_t width = sum_ND.size(1);
  const bool in_packs = rows_in_packs(width, sum_ND, rows_RD, added_ND);
  return start(Part::kOperators, sum_ND, in_packs ? "sum_of_rows" : "sum_of_rows_by_one",
               {sum_ND.size(0), 256}, sum_ND.mutable_data_ptr(), rows_RD.const_data_ptr(),
               slot_Nk.const_data_ptr<int64_t>(), pointer(added_ND), width,
               static_cast<int>(slot_Nk.size(1)));
}

// Input x and output y of one rotated tensor. The struct has the memory layout of the rotation
// kernel's type `Heads`. `heads` is the number of heads, or 0 if the tensor is undefined.
struct RotatedHeads {
  void* y = nullptr;
  const void* x = nullptr;
  int64_t heads = 0, stride_b = 0, stride_t = 0, stride_h = 0;
};

RotatedHeads rotated_heads(const at::Tensor& y_BTHK, const at::Tensor& x_BHTK) {
  if (!x_BHTK.defined()) return {};
  return {y_BTHK.mutable_data_ptr(), x_BHTK.const_data_ptr(), x_BHTK.size(1),
          x_BHTK.stride(0),          x_BHTK.stride(2),        x_BHTK.stride(1)};
}

// Whether the rotation kernel can read x and write y in whole packs. Also true if x is undefined.
bool rotates_packs(const at::Tensor& y_BTHK, const at::Tensor& x_BHTK) {
  if (!x_BHTK.defined()) return true;
  const int64_t lanes = kPackBytes / x_BHTK.element_size();
  bool whole = x_BHTK.size(3) % lanes == 0 && x_BHTK.stride(3) == 1;
  for (int64_t dim = 0; dim < 3; ++dim) whole = whole && x_BHTK.stride(dim) % lanes == 0;
  return whole && aligned(x_BHTK) && dense_packs(y_BTHK);
}

bool rotate(const at::Tensor& y_BTHK, const at::Tensor& x_BHTK, const at::Tensor& more_y_BTGK,
            const at::Tensor& more_x_BGTK, const at::Tensor& cos, const at::Tensor& sin,
            bool back) {
  const int64_t lanes = kPackBytes / x_BHTK.element_size(), turned = cos.size(-1);
  if (turned / 2 % lanes != 0 || !dense_packs(cos, sin) || !rotates_packs(y_BTHK, x_BHTK) ||
      !rotates_packs(more_y_BTGK, more_x_BGTK)) {
    return false;
  }
  const int64_t length = x_BHTK.size(2);
  return start(Part::kOperators, y_BTHK, "rotate", {x_BHTK.size(0) * length, 128},
               rotated_heads(y_BTHK, x_BHTK), rotated_heads(more_y_BTGK, more_x_BGTK),
               cos.const_data_ptr(), sin.const_data_ptr(), length, x_BHTK.size(3), turned,
               cos.dim() == 3 ? 1 : 0, back ? -1.0F : 1.0F);
}

// A box of four dims, with the memory layout of the draw kernel's type `Box`.
struct BoxOfFour {
  std::array<int64_t, 4> shape, offset, stride;
};

bool draw(const at::Tensor& out, const Shape& whole, const mesh::Box& box,
          const tensor::Draws& draws) {
  BoxOfFour four = {{1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  if (whole.size() > four.shape.size() || !out.is_contiguous()) return false;
  int64_t stride = 1;
  for (size_t i = 0; i < whole.size(); ++i) {
    const size_t dim = whole.size() - 1 - i, to = four.shape.size() - 1 - i;
    four.shape[to] = box.shape[dim];
    four.offset[to] = box.offset[dim];
    four.stride[to] = stride;
    stride *= whole[dim];
  }
  constexpr int kThreads = 256;
  return start(Part::kDraw, out, "draw", {(out.numel() + kThreads - 1) / kThreads, kThreads},
               out.mutable_data_ptr(), four, out.numel(), draws.key, draws.stream,
               draws.normal ? 1 : 0, draws.scale);
}

}  // namespace

const tensor::GpuKernels& kernels_by(Launch launch) {
  static constexpr tensor::GpuKernels kAll = {
      .logit_sums = logit_sums,
      .cross_entropy_gradient = cross_entropy_gradient,
      .gated = gated,
      .gated_gradients = gated_gradients,
      .rms_norm = rms_norm,
      .rms_norm_gradients = rms_norm_gradients,
      .rotate = rotate,
      .drop = drop,
      .sum_of_rows = sum_of_rows,
      .draw = draw,
  };
  launcher() = launch;
  return kAll;
}

}  // namespace am::cuda
