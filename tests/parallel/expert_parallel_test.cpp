// Models whose experts are distributed over ranks have the same losses, parameter gradients, token
// counts per expert and balance losses as on one rank.
#include <catch2/catch.hpp>
#include <string>

#include "am/base/text.h"
#include "support/check_gradients.h"

namespace am::parallel::ep {
namespace {

void check_experts(const test::GradientCase& one) {
  INFO(one.name());
  test::check_gradients(test::gradients_of(one, {""}).front(), test::gradients_of_one_rank(one));
}

}  // namespace

TEST_CASE("any family's experts lie on several ranks") {
  const std::string family = GENERATE("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2",
                                      "deepseek_v3", "gpt_oss", "granitemoe", "ernie4_5_moe");
  check_experts({.family = family, .mesh = "ep_size = 2\n"});
  check_experts({.family = family,
                 .mesh = "tp_size = 2\nep_size = 2\n",
                 .strategy = "activation_checkpointing = true\n",
                 .length = 23});
}

TEST_CASE("experts over ranks of any axes give one rank's gradients") {
  const std::string full = "activation_checkpointing = true\n";
  const std::string sp = "sequence_parallel = true\n";
  const auto one = GENERATE_COPY(
      test::GradientCase{.family = "mixtral", .world = 4, .mesh = "ep_size = 2\n"},
      test::GradientCase{.family = "mixtral", .world = 4, .mesh = "ep_size = 4\n"},
      test::GradientCase{
          .family = "gpt_oss", .world = 4, .mesh = "dp_replicate_size = 2\nep_size = 2\n"},
      test::GradientCase{
          .family = "gpt_oss", .world = 4, .mesh = "ep_size = 2\n", .strategy = full},
      test::GradientCase{.family = "deepseek_v3",
                         .world = 4,
                         .mesh = "tp_size = 2\nep_size = 4\n",
                         .strategy = sp + full},
      test::GradientCase{.family = "qwen2_moe",
                         .world = 4,
                         .mesh = "tp_size = 2\nep_size = 2\n",
                         .strategy = "activation_checkpointing = \"selective\"\n"},
      // Cutting 5 positions over 4 tp ranks leaves 2, 2, 1 and 0 positions, so one rank has no
      // tokens.
      test::GradientCase{
          .family = "mixtral", .world = 4, .mesh = "tp_size = 4\nep_size = 2\n", .length = 5},
      // The sequence length is not a multiple of the number of context-parallel chunks (2 per cp
      // rank), so sequences are padded. Experts also process the padding, but the token
      // counts per expert do not include it.
      test::GradientCase{.family = "deepseek_v3",
                         .world = 4,
                         .mesh = "tp_size = 2\ncp_size = 2\nep_size = 4\n",
                         .strategy = full,
                         .length = 21},
      test::GradientCase{.family = "mixtral",
                         .world = 8,
                         .mesh = "tp_size = 2\ncp_size = 2\nep_size = 2\n",
                         .strategy = sp,
                         .length = 18});
  check_experts(one);
}

}  // namespace am::parallel::ep
