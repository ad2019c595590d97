#include "am/stored/adapter_config.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am;

namespace {

// Returns the error for this configuration of an adapter of rank 8 and scale 2; empty if it is
// valid.
std::string refusal(const std::string& text) {
  try {
    stored::check_adapter_config(text, "a.json", {.rank = 8, .scale = 2.0});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("values of another kind are named in a sentence") {
  CHECK(refusal(R"({"r": 8, "lora_alpha": 16})") == "");
  CHECK(refusal(R"({"r": 8, "lora_alpha": 16, "use_rslora": null})") == "");
  CHECK(refusal(R"({"r": 8, "lora_alpha": 16, "peft_type": 3})") ==
        "a.json: peft_type is 3, not \"LORA\"");
  CHECK(refusal(R"({"r": 8, "lora_alpha": 16, "peft_type": null})") ==
        "a.json: peft_type is null, not \"LORA\"");
  CHECK(refusal(R"({"r": 8, "lora_alpha": 16, "use_rslora": "yes"})") ==
        "a.json: use_rslora is neither true nor false");
}

TEST_CASE("a factor that is no number fits no plan") {
  for (const char* alpha : {"NaN", "Infinity", "-Infinity", "\"16\""}) {
    CHECK(refusal(std::string(R"({"r": 8, "lora_alpha": )") + alpha + "}") ==
          "a.json: r and lora_alpha must be numbers, r an integer of at least 1");
  }
}
