// How tensor parallelism cuts the parameters of every family.
#include <catch2/catch.hpp>

#include "am/model/family.h"
#include "am/planner/layout.h"
#include "plan_text.h"

namespace {

using am::Diagnostics;
using am::planner::Layout;
using am::planner::ParameterLayout;

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

// Along the dim that is cut the ranks' boxes follow each other from end to end; along all others,
// and where nothing is cut, each box is the whole.
void check_cover(const Layout& layout, const ParameterLayout& parameter) {
  int64_t reached = 0;
  for (int64_t rank = 0; rank < layout.mesh.sizes().tp; ++rank) {
    const am::mesh::Box box = parameter.box(layout.mesh, rank);
    for (size_t dim = 0; dim < parameter.shape.size(); ++dim) {
      if (parameter.tp_dim != static_cast<int>(dim)) {
        CHECK(box.offset[dim] == 0);
        CHECK(box.shape[dim] == parameter.shape[dim]);
        continue;
      }
      if (box.shape[dim] > 0) CHECK(box.offset[dim] == reached);
      reached += box.shape[dim];
    }
  }
  if (!parameter.tp_dim.has_value()) return;
  CHECK(reached == parameter.shape[static_cast<size_t>(*parameter.tp_dim)]);
}

TEST_CASE("the pieces of tp's ranks cover each parameter exactly once") {
  for (const char* model : kModels) {
    for (const int64_t tp : {2, 3, 4}) {
      INFO(model << " " << tp);
      const Layout layout = cut_layout(model, tp);
      for (size_t i = 0; i < layout.parameters.size(); ++i) {
        // Experts are alike.
        if (layout.inventory.parameters[i].expert().value_or(0) > 0) continue;
        INFO(layout.parameters[i].name);
        check_cover(layout, layout.parameters[i]);
      }
    }
  }
}

// Where heads are handed out and tp divides them, no rank has a part of a head.
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
        const auto dim = static_cast<size_t>(layout.parameters[i].tp_dim.value());
        CHECK(layout.parameters[i].box(layout.mesh, rank).offset[dim] % module.grain == 0);
      }
    }
  }
}

}  // namespace
