// Models whose sequences are sharded over cp ranks have the same loss and parameter gradients as on
// one rank.
#include <catch2/catch.hpp>
#include <string>

#include "am/base/text.h"
#include "support/check_gradients.h"

namespace am::parallel::cp {
namespace {

struct ContextCase {
  std::string family = "llama";
  int64_t world = 2;
  std::string mesh = {}, strategy = {};  // further lines of [mesh] and [strategy]
  int64_t cp = 2;
  int64_t length = 24;
  bool packed = false;
};

void check_case(const ContextCase& one) {
  const test::GradientCase with = {.family = one.family,
                                   .world = one.world,
                                   .mesh = cat("cp_size = ", one.cp, "\n", one.mesh),
                                   .strategy = one.strategy,
                                   .length = one.length,
                                   .packed = one.packed};
  const std::vector<std::string> methods = {"ring", "all_gather", "ulysses"};
  std::vector<std::string> sections;
  for (const std::string& method : methods) {
    sections.push_back(cat("[context]\nmethod = \"", method, "\"\n"));
  }
  const std::vector<test::GradientOutcome> outcomes = test::gradients_of(with, sections);
  for (size_t m = 0; m < methods.size(); ++m) {
    INFO(with.name() << ", " << methods[m]);
    test::check_gradients(outcomes[m], test::gradients_of_one_rank(with));
  }
}

}  // namespace

TEST_CASE("a part of each sequence on each rank gives one rank's gradients") {
  const std::string full = "activation_checkpointing = true\n";
  const auto one = GENERATE_COPY(
      ContextCase{}, ContextCase{.world = 4, .cp = 4}, ContextCase{.length = 19},
      ContextCase{.packed = true}, ContextCase{.world = 4, .cp = 4, .length = 22, .packed = true},
      ContextCase{.world = 4}, ContextCase{.world = 8, .mesh = "dp_replicate_size = 2\n"},
      ContextCase{.world = 4, .mesh = "tp_size = 2\n"},
      ContextCase{.world = 4, .mesh = "tp_size = 2\n", .strategy = "sequence_parallel = true\n"},
      ContextCase{.world = 4,
                  .mesh = "tp_size = 2\n",
                  .strategy = "sequence_parallel = true\n" + full,
                  .length = 21,
                  .packed = true},
      ContextCase{.family = "mixtral", .world = 4, .mesh = "tp_size = 2\n", .length = 17},
      ContextCase{.family = "deepseek_v3",
                  .world = 4,
                  .mesh = "tp_size = 2\n",
                  .strategy = "sequence_parallel = true\n" + full,
                  .length = 10},
      ContextCase{.strategy = full},
      ContextCase{.strategy = "activation_checkpointing = \"selective\"\n"},
      ContextCase{.strategy = "activation_checkpointing = \"mlp\"\n", .packed = true});
  check_case(one);
}

TEST_CASE("any family's sequences lie on several ranks") {
  const auto [family, length] = GENERATE(table<std::string, int64_t>({{"mistral", 30},
                                                                      {"gemma2", 30},
                                                                      {"gemma3_text", 27},
                                                                      {"gpt2", 29},
                                                                      {"phi", 24},
                                                                      {"phi3-longrope", 40},
                                                                      {"falcon", 24},
                                                                      {"smollm3", 24},
                                                                      {"olmo2", 24},
                                                                      {"gpt_oss", 32},
                                                                      {"mixtral", 21},
                                                                      {"qwen2_moe", 18},
                                                                      {"deepseek_v2-dense", 21},
                                                                      {"deepseek_v3", 24},
                                                                      {"olmo3", 24},
                                                                      {"exaone4", 30},
                                                                      {"gpt_neox", 24},
                                                                      {"glm4", 24},
                                                                      {"cohere2", 30},
                                                                      {"hunyuan_v1_dense", 24},
                                                                      {"opt", 24},
                                                                      {"bloom", 24},
                                                                      {"mpt", 30}}));
  check_case({.family = family, .length = length});
}

}  // namespace am::parallel::cp
