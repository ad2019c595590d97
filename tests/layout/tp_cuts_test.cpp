// Tests the tensor-parallel sharding of the parameters of models of many families.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "am/layout/layout.h"
#include "am/model/family.h"
#include "layout/plan_text.h"

namespace {

using am::Diagnostics;
using am::layout::Layout;
using am::layout::ParameterLayout;

constexpr const char* kModels[] = {"llama-3.1-8b",
                                   "mistral-7b-v0.1",
                                   "mixtral-8x7b-v0.1",
                                   "qwen2.5-0.5b",
                                   "qwen2-57b-a14b",
                                   "qwen3-0.6b",
                                   "qwen3-30b-a3b",
                                   "gemma-2b",
                                   "gemma-2-2b",
                                   "gemma-3-1b-pt",
                                   "phi-2",
                                   "phi-4",
                                   "olmo-2-1124-7b",
                                   "deepseek-v2-lite",
                                   "deepseek-v3",
                                   "gpt-oss-20b",
                                   "gpt2",
                                   "falcon-7b",
                                   "smollm2-135m"};

Layout cut_layout(const char* model, int64_t tp) {
  am::model::ModelConfig config = am::test::model_of(model);
  config.num_hidden_layers = std::min<int64_t>(config.num_hidden_layers, 4);
  const auto plan =
      am::test::plan_of(am::cat("[mesh]\nworld_size = ", tp, "\ntp_size = ", tp, "\n"), model);
  return am::test::layout_of(plan, config);
}

// Checks that every element of the parameter is in exactly one box, if each copied box counts once,
// and that each rank's boxes add up to tp_shape().
void check_cover(const Layout& layout, const ParameterLayout& parameter) {
  const auto dim = static_cast<size_t>(parameter.tp_dim.value_or(0));
  std::vector<int> times(static_cast<size_t>(parameter.shape[dim]), 0);
  for (int64_t rank = 0; rank < layout.mesh.sizes().tp; ++rank) {
    am::Shape own = parameter.shape;
    own[dim] = 0;
    for (const am::layout::LocalShard& part : parameter.parts(layout.mesh, rank)) {
      const am::mesh::Box& box = part.box;
      for (size_t other = 0; other < own.size(); ++other) {
        if (other == dim) continue;
        CHECK(box.offset[other] == 0);
        CHECK(box.shape[other] == parameter.shape[other]);
      }
      own[dim] += box.shape[dim];
      if (part.copy > 0) continue;
      for (int64_t i = 0; i < box.shape[dim]; ++i) {
        ++times[static_cast<size_t>(box.offset[dim] + i)];
      }
    }
    CHECK(parameter.tp_shape(layout.mesh, rank) == own);
  }
  CHECK(std::count(times.begin(), times.end(), 1) == parameter.shape[dim]);
}

TEST_CASE("the pieces of tp's ranks cover each parameter exactly once") {
  for (const char* model : kModels) {
    for (const int64_t tp : {2, 3, 4}) {
      INFO(model << " " << tp);
      const Layout layout = cut_layout(model, tp);
      for (size_t i = 0; i < layout.parameters.size(); ++i) {
        // All experts are sharded alike, so a check of the first expert is enough.
        if (layout.inventory.parameters[i].expert().value_or(0) > 0) continue;
        INFO(layout.parameters[i].name);
        check_cover(layout, layout.parameters[i]);
      }
    }
  }
}

// Each rank holds whole heads if tp divides the number of heads.
TEST_CASE("pieces of queries, keys and values are whole heads") {
  for (const char* model : kModels) {
    INFO(model);
    const Layout layout = cut_layout(model, 2);
    for (size_t i = 0; i < layout.parameters.size(); ++i) {
      const am::model::ParameterSpec& spec = layout.inventory.parameters[i];
      if (spec.layer < 0 || layout.tp.parameters[i].style != am::model::TpStyle::kColwise) continue;
      const auto& module = *layout.inventory.spec.layer(spec.layer).find(spec.role);
      if (module.out / module.grain % 2 != 0) continue;
      INFO(spec.name);
      for (int64_t rank = 0; rank < 2; ++rank) {
        for (const auto& extent : layout.parameters[i].tp_extents(layout.mesh, rank)) {
          CHECK(extent.offset % module.grain == 0);
        }
      }
    }
  }
}

// falcon-7b has 71 query heads and one key head, llama-3.2-1b 32 and 8.
TEST_CASE("ranks beyond the key heads share them with their neighbours") {
  const Layout falcon = cut_layout("falcon-7b", 4);
  const ParameterLayout* fused = nullptr;
  for (const ParameterLayout& parameter : falcon.parameters) {
    if (parameter.name == "transformer.h.0.self_attention.query_key_value.weight") {
      fused = &parameter;
    }
  }
  REQUIRE(fused != nullptr);
  CHECK(fused->tp_slices ==
        std::vector<am::mesh::DimSlice>{{{0, 4544}, 1}, {{4544, 64}, 4}, {{4608, 64}, 4}});
  const auto parts = fused->parts(falcon.mesh, 3);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].copies == 1);
  CHECK(parts[1].box == am::mesh::Box{{4544, 0}, {64, 4544}});
  CHECK(parts[1].copy == 3);
  CHECK(fused->grad_sum_ranks(parts[1]) == 4);
  CHECK(fused->grad_sum_ranks(parts[0]) == 1);

  // The model has 8 key heads of width 64.
  const am::model::ModelConfig config = am::test::model_of("llama-3.2-1b");
  const auto plan = am::test::plan_of("[mesh]\nworld_size = 64\ntp_size = 32\n", "llama-3.2-1b");
  const Layout llama = am::test::layout_of(plan, config);
  for (const ParameterLayout& parameter : llama.parameters) {
    if (parameter.name != "model.layers.3.self_attn.k_proj.weight") continue;
    CHECK(parameter.tp_slices == std::vector<am::mesh::DimSlice>{{{0, 512}, 4}});
    // tp rank 9 has key head 2, counted from 0. Rank 41 stores the head's second half under FSDP.
    const auto own = parameter.parts(llama.mesh, 32 + 9);
    REQUIRE(own.size() == 1);
    CHECK(own[0].box == am::mesh::Box{{2 * 64 + 32, 0}, {32, 2048}});
    CHECK(own[0].copy == 1);
    CHECK(parameter.grad_sum_ranks(own[0]) == 4);
  }
}

// After tp, FSDP divides a rank's query, key and value rows as one dim: here into two halves.
TEST_CASE("a data-parallel shard of a matrix that is cut slice by slice is several boxes") {
  am::model::ModelConfig config = am::test::model_of("phi-4");
  config.num_hidden_layers = 1;
  const auto plan = am::test::plan_of("[mesh]\nworld_size = 4\ntp_size = 2\n", "phi-4");
  const Layout layout = am::test::layout_of(plan, config);
  for (const ParameterLayout& parameter : layout.parameters) {
    if (parameter.name != "model.layers.0.self_attn.qkv_proj.weight") continue;
    // A tp rank has 2560 query rows, 640 key rows and 640 value rows; FSDP assigns 1920 of these to
    // each data-parallel rank.
    const auto first = parameter.parts(layout.mesh, 1);
    REQUIRE(first.size() == 1);
    CHECK(first[0].box == am::mesh::Box{{2560, 0}, {1920, 5120}});
    const auto second = parameter.parts(layout.mesh, 3);
    REQUIRE(second.size() == 3);
    CHECK(second[0].box == am::mesh::Box{{2560 + 1920, 0}, {640, 5120}});
    CHECK(second[1].box == am::mesh::Box{{5120 + 640, 0}, {640, 5120}});
    CHECK(second[2].box == am::mesh::Box{{5120 + 1280 + 640, 0}, {640, 5120}});
    CHECK(parameter.own_shape(layout.mesh, 3) == am::Shape{1920, 5120});
  }
}

}  // namespace
