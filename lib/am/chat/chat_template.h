// Renders conversations to the text on which a model is trained, with the model's chat template.
//
//   const auto chat = chat::ChatTemplate::from_folder("models/qwen3");
//   chat::ChatRequest request;
//   request.messages = Json::parse(R"([{"role": "user", "content": "Hi"}])");
//   request.add_generation_prompt = true;
//   const chat::Rendered out = chat.render(request);
//   out.text;                              // "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
//   out.generated;                         // bytes that the template marks by {% generation %}
//
// The text equals that of transformers' apply_chat_template(tokenize=False). The spans in
// `generated` equal those of return_assistant_tokens_mask, but count bytes instead of characters.
// If a {% generation %} block is inside a macro or a {% set %} block, its span begins at a wrong
// offset, as in transformers.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"
#include "am/chat/template.h"

namespace am::chat {

struct ChatRequest {
  Json messages;             // a list of objects: role, content, tool_calls, reasoning_content, ...
  Json tools = nullptr;      // a list of JSON schemas of functions, or null
  Json documents = nullptr;  // a list of objects: title, text; or null
  bool add_generation_prompt = false;
  Json variables = Json::object();  // further variables, for example {"enable_thinking": false}
  // Name of the template. If the name is empty, render() uses the template "tool_use" if `tools` is
  // not null and this template exists, otherwise the template "default".
  std::string template_name = {};
};

class ChatTemplate {
 public:
  // Reads the templates and special tokens of a model folder. The templates are chat_template.jinja
  // and additional_chat_templates/*.jinja. If these files are missing, "chat_template" in
  // tokenizer_config.json is read: a text, or a list of named texts. The special tokens are in
  // tokenizer_config.json and, for older models, in special_tokens_map.json. Throws Error(kIo) if a
  // file cannot be read. Throws Error(kFormat) if there is no template, or if a template or another
  // file is not valid.
  static ChatTemplate from_folder(const std::filesystem::path& folder);
  // Like from_folder(), but returns nullopt if there is no template.
  static std::optional<ChatTemplate> find_in(const std::filesystem::path& folder);

  // `special_tokens` is an object with the values of the variables bos_token, eos_token and so on.
  explicit ChatTemplate(std::string_view source, Json special_tokens = Json::object());

  // Throws Error(kFormat) if the messages are not a list of objects, or if the list is empty.
  // Throws Error(kUsage) if the requested template does not exist. Also throws the errors of
  // Template::render(). Several threads can render at once.
  Rendered render(const ChatRequest& request, const RenderOptions& options = {}) const;

  std::vector<std::string> names() const;
  const Json& special_tokens() const { return special_tokens_; }

 private:
  ChatTemplate() = default;
  const Template& chosen(const ChatRequest& request) const;

  std::map<std::string, Template> templates_;
  Json special_tokens_ = Json::object();
};

}  // namespace am::chat
