// Attention over sequences that are sharded over cp ranks, by each method, equals attention on one
// rank: the outputs, and the gradients of queries, keys, values and sinks.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <memory>
#include <mutex>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/nn/attention/attention.h"
#include "am/nn/fused/device.h"
#include "am/nn/rope.h"
#include "am/parallel/cp/all_gather.h"
#include "am/parallel/cp/ring.h"
#include "am/parallel/cp/ulysses.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "support/operators.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am::parallel {
namespace {

using test::Tensors;

struct AttentionCase {
  std::string name;
  int64_t length = 24, heads = 4, key_heads = 2, width = 8, value_width = 8;
  std::optional<double> softcap = {};
  int64_t window = 0;
  bool sinks = false;
  bool alibi = false;
  std::vector<int64_t> documents = {};  // positions in row 0 where a document begins
  at::ScalarType dtype = at::kDouble;
  double scale = 0.4;
  bool gpu = false;  // uses flash attention, as on GPUs (support/flash_stand_in.cpp)
};

nn::AttentionParams look_of(const AttentionCase& one, int64_t length) {
  nn::AttentionParams params = {.scale = one.scale, .softcap = one.softcap, .window = one.window};
  for (int64_t head = 1; one.alibi && head <= one.heads; ++head) {
    params.slopes.push_back(0.1 * static_cast<double>(head));
  }
  if (one.documents.empty()) return params;
  const at::Tensor begins = at::zeros({2, length}, at::kLong);
  for (const int64_t first : one.documents) begins[0][first].fill_(1);
  params.document_BT = begins.cumsum(1);
  params.document_starts =
      std::make_shared<const std::vector<int64_t>>(nn::document_starts(1 - begins));
  return params;
}

Tensors inputs_of(const AttentionCase& one) {
  at::manual_seed(5);
  const auto made = [&](int64_t heads, int64_t width) {
    return at::randn({2, one.length, heads, width}, at::kDouble).to(one.dtype).transpose(1, 2);
  };
  Tensors inputs = {made(one.heads, one.width), made(one.key_heads, one.width),
                    made(one.key_heads, one.value_width)};
  if (one.sinks) inputs.push_back(at::randn({one.heads}, at::kDouble).to(one.dtype));
  return inputs;
}

std::optional<at::Tensor> sinks_in(const Tensors& in) {
  return in.size() == 4 ? std::optional(in[3]) : std::nullopt;
}

// Returns a rank's part of x_BHTX, [batch, heads, tokens, width]. Padding positions, which follow
// all other positions, have the value `padding`.
at::Tensor own(const at::Tensor& x_BHTX, const mesh::SequenceCut& cut, int64_t index,
               double padding = 1.0) {
  std::vector<int64_t> behind = x_BHTX.sizes().vec();
  behind[2] = cut.padded - cut.length;
  const at::Tensor padded = at::cat({x_BHTX, at::full(behind, padding, x_BHTX.options())}, 2);
  Tensors runs;
  for (const auto& run : cut.parts(index)) runs.push_back(padded.narrow(2, run.offset, run.size));
  return at::cat(runs, 2);
}

void put(const at::Tensor& part, const mesh::SequenceCut& cut, int64_t index,
         const at::Tensor& whole) {
  int64_t first = 0;
  for (const auto& run : cut.parts(index)) {
    const int64_t real = std::clamp<int64_t>(cut.length - run.offset, 0, run.size);
    whole.narrow(2, std::min(run.offset, cut.length - real), real)
        .copy_(part.narrow(2, first, real));
    first += run.size;
  }
}

using Method = at::Tensor (*)(const nn::Qkv&, const nn::AttentionParams&,
                              const std::optional<at::Tensor>&, const cp::SequenceGroup&);
struct NamedMethod {
  const char* name;
  Method run;
  mesh::SequenceOrder order;
};
const NamedMethod kMethods[] = {
    {"ring", &cp::ring_attention, mesh::SequenceOrder::kHeadTail},
    {"all_gather", &cp::all_gather_attention, mesh::SequenceOrder::kHeadTail},
    {"ulysses", &cp::ulysses_attention, mesh::SequenceOrder::kContiguous},
};

// Runs forward and backward of this rank's part of the attention `one`. Returns the part's output
// and gradients.
test::Outcome on_rank(const AttentionCase& one, const NamedMethod& method,
                      const cp::SequenceGroup& group, const mesh::SequenceCut& cut,
                      const Tensors& inputs, const at::Tensor& entering) {
  Tensors mine;
  for (size_t i = 0; i < 3; ++i) mine.push_back(own(inputs[i], cut, group.index()));
  if (one.sinks) mine.push_back(inputs[3]);
  // Padding positions receive no gradient.
  const at::Tensor real = own(at::ones_like(entering), cut, group.index(), 0.0);
  const at::Tensor of_mine = own(entering, cut, group.index()) * real;
  const nn::AttentionParams params = look_of(one, cut.padded);
  const auto attended = [&](const Tensors& in) {
    return method.run({in[0], in[1], in[2]}, params, sinks_in(in), group);
  };
  const test::Outcome got = test::run(attended, mine, of_mine);
  const at::NoGradGuard no_grad;
  RANK_CHECK(at::equal(attended(mine), got.value));
  RANK_CHECK(got.value.transpose(1, 2).is_contiguous());
  return got;
}

// Returns the output and the gradients of each method, assembled from all ranks; the gradients of
// sinks are summed over the ranks.
std::vector<test::Outcome> over_ranks(const AttentionCase& one, int64_t ranks,
                                      const Tensors& inputs, const at::Tensor& entering) {
  std::vector<test::Outcome> wholes;
  for (size_t i = 0; i < std::size(kMethods); ++i) {
    test::Outcome& whole = wholes.emplace_back();
    whole.value = at::empty_like(entering);
    for (const at::Tensor& input : inputs) {
      whole.gradients.push_back(at::zeros_like(input));
    }
  }
  std::mutex mutex;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.cp = ranks}));
    for (size_t m = 0; m < std::size(kMethods); ++m) {
      const cp::SequenceGroup group = {&mesh.group("cp"), kMethods[m].order};
      const mesh::SequenceCut cut =
          mesh::cut_sequence({.length = one.length, .ranks = ranks, .order = kMethods[m].order});
      const test::Outcome got = on_rank(one, kMethods[m], group, cut, inputs, entering);
      const std::lock_guard lock(mutex);
      put(got.value.detach(), cut, group.index(), wholes[m].value);
      for (size_t i = 0; i < 3; ++i) {
        put(got.gradients[i], cut, group.index(), wholes[m].gradients[i]);
      }
      if (one.sinks) wholes[m].gradients[3].add_(got.gradients[3]);
    }
  });
  return wholes;
}

void compare(const AttentionCase& one, int64_t ranks) {
  const at::Tensor entering = at::arange(2 * one.heads * one.length * one.value_width, at::kDouble)
                                  .cos()
                                  .view({2, one.heads, one.length, one.value_width})
                                  .to(one.dtype);
  const nn::AttentionParams params = look_of(one, one.length);
  const Tensors inputs = inputs_of(one);
  Tensors exact;
  for (const at::Tensor& each : inputs) exact.push_back(each.to(at::kDouble));
  const test::Outcome wanted = test::run(
      [&](const Tensors& in) {
        return nn::attention({in[0], in[1], in[2]}, params, sinks_in(in));
      },
      exact, entering.to(at::kDouble));
  const double allowed = one.dtype == at::kDouble ? 1e-12 : one.dtype == at::kFloat ? 3e-6 : 3e-2;
  std::optional<nn::fused::PassForGpu> gpu;
  if (one.gpu) gpu.emplace();
  const auto outcomes = over_ranks(one, ranks, inputs, entering);
  for (size_t m = 0; m < outcomes.size(); ++m) {
    INFO(one.name << ", " << kMethods[m].name << ", cp " << ranks);
    test::check_close(outcomes[m].value.to(at::kDouble), wanted.value, allowed);
    for (size_t i = 0; i < wanted.gradients.size(); ++i) {
      INFO("gradient of input " << i);
      test::check_close(outcomes[m].gradients[i].to(at::kDouble), wanted.gradients[i], allowed);
    }
  }
}

}  // namespace

TEST_CASE("attention over ranks is one rank's") {
  const auto one = GENERATE(
      AttentionCase{.name = "plain"}, AttentionCase{.name = "one key head", .key_heads = 1},
      AttentionCase{.name = "three key heads", .heads = 12, .key_heads = 3},
      AttentionCase{.name = "as many key heads", .key_heads = 4},
      AttentionCase{.name = "padded", .length = 21},
      AttentionCase{.name = "more padding than a chunk", .length = 9},
      AttentionCase{.name = "soft-cap", .softcap = 0.7},
      AttentionCase{.name = "window of one", .window = 1},
      AttentionCase{.name = "window within a chunk", .length = 32, .window = 3},
      AttentionCase{.name = "window over chunks", .length = 30, .window = 7},
      AttentionCase{.name = "window of all", .window = 100},
      AttentionCase{.name = "sinks", .sinks = true},
      AttentionCase{.name = "sinks, window", .length = 30, .window = 4, .sinks = true},
      AttentionCase{.name = "ALiBi", .length = 30, .alibi = true},
      AttentionCase{.name = "documents", .documents = {1, 5, 14, 23}},
      AttentionCase{
          .name = "documents, window, padded", .length = 22, .window = 5, .documents = {9, 10}},
      AttentionCase{.name = "latent widths", .key_heads = 4, .width = 12, .value_width = 6},
      AttentionCase{.name = "narrow values", .key_heads = 4, .width = 16, .value_width = 6},
      AttentionCase{.name = "all of it",
                    .length = 29,
                    .width = 6,
                    .value_width = 10,
                    .softcap = 1.5,
                    .window = 9,
                    .sinks = true,
                    .alibi = true,
                    .documents = {11}},
      AttentionCase{.name = "over blocks", .length = 600, .window = 140},
      AttentionCase{.name = "float32", .length = 40, .dtype = at::kFloat},
      AttentionCase{.name = "float32, sinks, window",
                    .length = 40,
                    .window = 6,
                    .sinks = true,
                    .dtype = at::kFloat},
      AttentionCase{
          .name = "bfloat16", .length = 40, .window = 6, .sinks = true, .dtype = at::kBFloat16});
  for (const int64_t ranks : {2, 4}) {
    compare(one, ranks);
    AttentionCase gpu = one;
    gpu.name += ", on GPUs";
    gpu.gpu = true;
    compare(gpu, ranks);
  }
}

// The expected values in tests/data/context are made by scripts/fixtures/make_context_fixtures.py.
TEST_CASE("attention over ranks is PyTorch's ring attention") {
  const auto made = frameworks::open_tensor_source(test::data_path("context/ring.safetensors"));
  const Tensors inputs = {checkpoint::read_all(*made, "q"), checkpoint::read_all(*made, "k"),
                          checkpoint::read_all(*made, "v")};
  const AttentionCase one = {
      .name = "PyTorch's", .length = inputs[0].size(2), .dtype = at::kFloat, .scale = 0.3};
  for (const test::Outcome& outcome :
       over_ranks(one, 4, inputs, checkpoint::read_all(*made, "of_out"))) {
    test::check_close(outcome.value, checkpoint::read_all(*made, "out"), 2e-6);
    size_t i = 0;
    for (const char* name : {"of_q", "of_k", "of_v"}) {
      INFO(name);
      test::check_close(outcome.gradients[i++], checkpoint::read_all(*made, name), 2e-6);
    }
  }
}

TEST_CASE("parts of the keys are merged, also where there was nothing to see") {
  const at::Tensor out = at::randn({1, 3, 2, 4}, at::kDouble);
  const at::Tensor lse = at::randn({1, 2, 3}, at::kDouble);
  const auto nothing = [&]() -> nn::Attended {
    return {at::zeros_like(out), at::full_like(lse, -std::numeric_limits<double>::infinity())};
  };
  const nn::Attended sum = nothing();
  cp::merge(sum, nothing());
  CHECK(at::equal(sum.out_BtHV, at::zeros_like(out)));
  CHECK(sum.lse_BHt.isneginf().all().item<bool>());
  cp::merge(sum, {out, lse});
  cp::merge(sum, nothing());
  CHECK(at::allclose(sum.out_BtHV, out));
  CHECK(at::allclose(sum.lse_BHt, lse));
}

TEST_CASE("queries that see none of the keys at hand have nothing, and no gradient") {
  const at::Tensor q = at::randn({1, 2, 5, 4}), k = at::randn({1, 1, 6, 4}),
                   v = at::randn({1, 1, 6, 4});
  const nn::AttentionParams params = {.scale = 0.5, .window = 4};
  const at::Tensor out = at::full({1, 5, 2, 4}, 7.0), lse = at::full({1, 2, 5}, 7.0);
  // Queries 8 to 12 and keys 0 to 5: query 8 attends to key 5, queries 9 to 12 to no key.
  nn::attend({q, k, v}, params, {.query = 8, .key = 0}, {out, lse});
  CHECK(out.narrow(1, 1, 4).eq(0).all().item<bool>());
  CHECK(lse.narrow(2, 1, 4).isneginf().all().item<bool>());
  CHECK(lse.narrow(2, 0, 1).isfinite().all().item<bool>());
  CHECK(at::allclose(out.select(1, 0), v.select(2, 5).expand({1, 2, 4})));
  const nn::HeadGradients sums = {at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
  nn::attend_backward({q, k, v}, params, {.query = 8, .key = 0},
                      {at::ones({1, 2, 5, 4}), lse, at::zeros({1, 2, 5})}, sums);
  CHECK(sums.q_BHtK.narrow(2, 1, 4).eq(0).all().item<bool>());
  CHECK(sums.k_BGsK.isfinite().all().item<bool>());
  CHECK(sums.v_BGsV.narrow(2, 0, 5).eq(0).all().item<bool>());
}

}  // namespace am::parallel
