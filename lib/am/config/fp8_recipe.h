// Recipes for products of matrices in 8 or 4 bits: the values of strategy.fp8.
//
//   const Fp8RecipeSpec& recipe = spec_of(Fp8Recipe::kMxfp8);
//   recipe.name;                // "mxfp8"
//   recipe.transformer_engine;  // true: am-plan predicts it, and am-run does not run it
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace am::config {

enum class Fp8Recipe { kNone, kTensorwise, kRowwise, kDelayed, kBlock, kMxfp8, kNvfp4 };
inline constexpr size_t kFp8Recipes = 7;

struct Fp8RecipeSpec {
  Fp8Recipe recipe;
  std::string_view name;  // value of strategy.fp8
  // Whether the recipe is that of NVIDIA's Transformer Engine, which am-run does not run.
  // kTensorwise and kRowwise are torchao's; Transformer Engine has kTensorwise too.
  bool transformer_engine;
  // Value of Megatron's argument --fp8-recipe or, in 4 bits, --fp4-recipe; empty: Megatron does not
  // have the recipe.
  std::string_view megatron;
  // Both sizes of a matrix, and of its part on each rank, must be multiples of this number.
  int64_t multiple;
  // Bytes of an operand's element, with its share of the scales: one in float32 per block of 128
  // (kBlock), or one of 8 bits per block of 32 (kMxfp8) or 16 (kNvfp4).
  double bytes;
};

inline constexpr std::array<Fp8RecipeSpec, kFp8Recipes> kFp8RecipeSpecs = {{
    {Fp8Recipe::kNone, "none", false, "", 1, 0.0},
    {Fp8Recipe::kTensorwise, "tensorwise", false, "tensorwise", 16, 1.0},
    {Fp8Recipe::kRowwise, "rowwise", false, "", 16, 1.0},
    {Fp8Recipe::kDelayed, "delayed", true, "delayed", 16, 1.0},
    {Fp8Recipe::kBlock, "block", true, "blockwise", 16, 1.0 + 4.0 / 128.0},
    {Fp8Recipe::kMxfp8, "mxfp8", true, "mxfp8", 32, 1.0 + 1.0 / 32.0},
    {Fp8Recipe::kNvfp4, "nvfp4", true, "nvfp4", 16, 0.5 + 1.0 / 16.0},
}};

constexpr const Fp8RecipeSpec& spec_of(Fp8Recipe recipe) {
  return kFp8RecipeSpecs[static_cast<size_t>(recipe)];
}

}  // namespace am::config
