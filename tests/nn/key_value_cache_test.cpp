// Logits of new tokens, computed with the cached keys and values of earlier tokens, equal those of
// a forward pass over the whole sequence.
#include "am/nn/key_value_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "am/frameworks/open_weights.h"
#include "am/nn/fused/device.h"
#include "am/values/stored_view.h"
#include "support/folders.h"

namespace am::nn {
namespace {

// A model of tests/data/hf on one rank.
struct Model {
  explicit Model(const std::string& family)
      : view(frameworks::open_tensor_source(std::string(test::kDataFolder) + "/hf/" + family +
                                            "/model.safetensors")) {}

  Decoder& decoder() { return view.runnable({}).stages().begin()->second->decoder(); }

  values::StoredView view;
};

at::Tensor ids_up_to(const at::Tensor& ids_BT, int64_t length) {
  return ids_BT.narrow(1, 0, length);
}

TEST_CASE("logits behind a cache of keys are those of the whole sequence", "[nn]") {
  const at::NoGradGuard no_grad;
  std::optional<fused::PassForGpu> gpu;  // if set, flash attention runs where possible
  if (GENERATE(false, true)) gpu.emplace();
  // The families cover sliding windows, attention sinks, soft caps, latent attention, learned
  // position embeddings, LongRoPE, experts and biases.
  for (const std::string family : {"llama",
                                   "mistral",
                                   "gemma2",
                                   "gemma3_text",
                                   "gpt_oss",
                                   "deepseek_v3",
                                   "gpt2",
                                   "falcon",
                                   "phi",
                                   "phi3-longrope",
                                   "qwen3-yarn",
                                   "mixtral",
                                   "smollm3",
                                   "olmo3",
                                   "exaone4",
                                   "minimax_m2",
                                   "gpt_neox",
                                   "glm",
                                   "cohere2",
                                   "granite",
                                   "hunyuan_v1_dense",
                                   "opt",
                                   "granitemoe",
                                   "ernie4_5_moe",
                                   "hunyuan_v1_moe",
                                   "bloom",
                                   "mpt"}) {
    INFO(family);
    Model model(family);
    Decoder& decoder = model.decoder();
    const int64_t longest = std::min<int64_t>(decoder.config().max_position_embeddings, 40);
    const at::Tensor ids_BT = (at::arange(2 * longest, at::kLong) * 7 % 96).view({2, longest});
    const at::Tensor whole_BTV = decoder(ids_BT);
    {
      KeyValueCache cache(decoder, longest);
      int64_t kept = 0;
      for (int64_t length : {5L, 6L, 7L, 15L, 16L, 17L, 33L, longest}) {
        if (length <= kept) continue;
        if (!decoder.turns_alike(length, longest)) continue;  // RoPE's angles would differ
        cache.keep(kept);
        const at::Tensor logits_BtV = decoder(ids_up_to(ids_BT, length));
        INFO(length);
        REQUIRE(logits_BtV.size(1) == length - kept);
        CHECK(at::allclose(logits_BtV, whole_BTV.narrow(1, kept, length - kept), 1e-4, 1e-5));
        kept = length;
      }
      CHECK(kept == longest);
    }
    CHECK(at::equal(decoder(ids_BT), whole_BTV));  // the decoder is unchanged
  }
}

TEST_CASE("what a cache keeps is what it is told, not what came last", "[nn]") {
  const at::NoGradGuard no_grad;
  Model model("llama");
  Decoder& decoder = model.decoder();
  const at::Tensor ids_BT = (at::arange(12, at::kLong) * 5 % 96).view({1, 12});
  at::Tensor other_BT = ids_BT.clone();
  other_BT.narrow(1, 4, 8).add_(1);
  KeyValueCache cache(decoder, 12);
  decoder(ids_BT);
  cache.keep(4);
  const at::Tensor behind_BtV = decoder(other_BT);
  cache.keep(0);
  CHECK(at::allclose(behind_BtV, decoder(other_BT).narrow(1, 4, 8), 1e-4, 1e-5));
  cache.keep(4);
  CHECK_FALSE(at::allclose(behind_BtV, decoder(ids_BT), 1e-4, 1e-5));
}

TEST_CASE("models whose long sequences turn otherwise say so", "[nn]") {
  Model plain("llama");
  CHECK(plain.decoder().turns_alike(8, 64));
  Model longrope("phi3-longrope");
  Decoder& decoder = longrope.decoder();
  const int64_t original = 8;
  CHECK(decoder.turns_alike(2, original));
  CHECK_FALSE(decoder.turns_alike(original, original + 1));
  CHECK(decoder.turns_alike(original + 1, original + 9));
}

}  // namespace
}  // namespace am::nn
