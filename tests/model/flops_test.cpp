// Compares the FLOPs per token of each convention with the convention's formula and with published
// figures.
#include "am/model/flops.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/model/config.h"

namespace {

using am::model::ModelConfig;
using am::test::model_of;

TEST_CASE("NVIDIA's and Megatron-Bridge's published operations per token") {
  // FLOPs per token, computed from published pairs of tokens per second and TFLOP per second.
  CHECK(am::model::nvidia_flops_per_token(model_of("llama-3.1-8b"), 8192) ==
        Approx(57.9e9).epsilon(2e-3));
  CHECK(am::model::nvidia_flops_per_token(model_of("llama-3.1-70b"), 8192) ==
        Approx(481e9).epsilon(2e-3));
  // For the 405B model, the figure from the published pair is one per cent above the formula.
  CHECK(am::model::nvidia_flops_per_token(model_of("llama-3.1-405b"), 8192) ==
        Approx(2649e9).epsilon(1e-2));
  CHECK(am::model::megatron_bridge_flops_per_token(model_of("llama-3.1-70b"), 8192) ==
        Approx(449e9).epsilon(2e-3));
  CHECK(am::model::megatron_bridge_flops_per_token(model_of("llama-3.1-405b"), 8192) ==
        Approx(2524e9).epsilon(2e-3));
}

TEST_CASE("torchtitan's figure of 2024 counts the table, its code of today does not") {
  const ModelConfig llama = model_of("llama-3.1-8b");
  CHECK(am::model::palm_flops_per_token(llama, 8192) == Approx(61.06e9).epsilon(1e-3));
  CHECK(am::model::torchtitan_flops_per_token(llama, 8192) ==
        Approx(6.0 * (8030261248.0 - 128256.0 * 4096) + 12.0 * 32 * 4096 * 8192));
  // torchtitan's formula omits the embedding table even if the head is tied to the table.
  CHECK(am::model::torchtitan_flops_per_token(model_of("llama-3.2-1b"), 4096) ==
        Approx(6.0 * (1235814400.0 - 128256.0 * 2048) + 12.0 * 16 * 2048 * 4096));
}

TEST_CASE("Megatron's formulas hold for the decoder that they were written for") {
  // GPT-2 has an MLP of four times the hidden size, and one key/value head per query head.
  const ModelConfig gpt2 = model_of("gpt2");
  const double h = 768.0;
  const double L = 12.0;
  const double V = 50257.0;
  const double s = 1024.0;
  CHECK(am::model::korthikanti_flops_per_token(gpt2, 1024) ==
        Approx(72.0 * L * h * h * (1.0 + s / (6.0 * h) + V / (12.0 * h * L))));
}

TEST_CASE("windows shorten attention in the published conventions") {
  ModelConfig mistral = model_of("mistral-7b-v0.1");
  mistral.sliding_window = std::nullopt;
  const double full = am::model::palm_flops_per_token(mistral, 8192);
  mistral.sliding_window = 1024;
  const double windowed = am::model::palm_flops_per_token(mistral, 8192);
  CHECK(full - windowed == Approx(12.0 * 32 * 4096 * (8192 - 1024)));
  CHECK(am::model::palm_flops_per_token(mistral, 512) ==
        Approx(6.0 * 7241732096.0 + 12.0 * 32 * 4096 * 512));
}

TEST_CASE("a token of a mixture passes its own experts only") {
  const ModelConfig mixtral = model_of("mixtral-8x7b-v0.1");
  CHECK(am::model::active_parameters(mixtral) == 12879925248);
  CHECK(am::model::train_flops_per_token(mixtral, 1) ==
        Approx(6.0 * (12879925248.0 - 32000.0 * 4096) + 12.0 * 32 * 4096));
  // Latent attention: queries and keys of width 192, values of width 128.
  const ModelConfig deepseek = model_of("deepseek-v3");
  CHECK(am::model::train_flops_per_token(deepseek, 4096) -
            am::model::train_flops_per_token(deepseek, 1) ==
        Approx(12.0 * 61 * 128 * 160 * 4095));
}

}  // namespace
