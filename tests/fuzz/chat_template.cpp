// Input: a chat template. The target parses the template and renders a conversation under small
// limits. The spans that the model generates must lie inside the rendered text.
#include "am/chat/chat_template.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const am::chat::ChatRequest request = [] {
    am::chat::ChatRequest out;
    out.messages = am::Json::parse(R"([
        {"role": "system", "content": "S"}, {"role": "user", "content": " é\n"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "t"}]}])");
    out.tools =
        am::Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");
    return out;
  }();
  am::chat::RenderOptions options;
  options.limits.steps = 20'000;
  options.limits.bytes = 1 << 20;
  options.now = 0;
  try {
    const am::chat::ChatTemplate chat(am::fuzz::text_of(data, size), {{"bos_token", "<s>"}});
    const am::chat::Rendered out = chat.render(request, options);
    for (const auto& span : out.generated) {
      if (span.begin > span.end || span.end > out.text.size()) __builtin_trap();
    }
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
