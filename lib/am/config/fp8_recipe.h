// Recipes for matrix products in 8 or 4 bits: the values of strategy.fp8.
//
//   const Fp8RecipeSpec& recipe = spec_of(Fp8Recipe::kMxfp8);
//   recipe.name;                // "mxfp8"
//   recipe.transformer_engine;  // true: am-plan predicts the recipe, but am-run does not run it
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
  // Whether the recipe comes from NVIDIA's Transformer Engine; am-run does not run these recipes.
  // kTensorwise and kRowwise come from torchao. Transformer Engine has kTensorwise too.
  bool transformer_engine;
  // Value of Megatron's argument --fp8-recipe or, in 4 bits, --fp4-recipe; empty: Megatron does not
  // have the recipe.
  std::string_view megatron;
  // Both sizes of a matrix, or of its shard on each tensor-parallel rank, must be multiples of this
  // number.
  int64_t multiple;
  // Bytes per element of an operand, including the scales of blocks: a float32 scale per 128
  // elements (kBlock), an 8-bit scale per 32 elements (kMxfp8) or per 16 elements (kNvfp4).
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
