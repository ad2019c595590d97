// Renders templates that a script sends, one JSON object a line, and answers each with a line.
//
//   render_templates < {"template": "{{ x }}", "variables": {"x": 1}, "now": 0}
//                    > {"text": "1", "spans": []}          or  {"error": "template:1: ..."}
//
// A request with "messages" renders a conversation (chat/chat_template.h); it may have "tools",
// "documents", "add_generation_prompt" and "special_tokens" too. A span is [begin, end) in bytes.
// scripts/fixtures/check_chat_templates.py and check_random_templates.py use this program.
#include <iostream>
#include <string>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/chat/chat_template.h"

namespace {

am::Json part(const am::Json& request, const char* key, am::Json otherwise) {
  return request.contains(key) ? request[key] : std::move(otherwise);
}

am::chat::Rendered render(const am::Json& request) {
  const auto& source = request.at("template").get_ref<const std::string&>();
  am::chat::RenderOptions options;
  if (request.contains("now")) options.now = request["now"].get<int64_t>();
  const am::Json variables = part(request, "variables", am::Json::object());
  if (!request.contains("messages")) {
    return am::chat::Template(source, "template").render(variables, options);
  }
  const am::chat::ChatTemplate chat(source, part(request, "special_tokens", am::Json::object()));
  am::chat::ChatRequest chat_request;
  chat_request.messages = request["messages"];
  chat_request.tools = part(request, "tools", nullptr);
  chat_request.documents = part(request, "documents", nullptr);
  chat_request.add_generation_prompt = part(request, "add_generation_prompt", false);
  chat_request.variables = variables;
  return chat.render(chat_request, options);
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    am::Json answer = am::Json::object();
    try {
      const auto rendered = render(am::parse_json_object(line, "request"));
      answer["text"] = rendered.text;
      answer["spans"] = am::Json::array();
      for (const auto& span : rendered.generated) answer["spans"].push_back({span.begin, span.end});
    } catch (const std::exception& error) {
      answer["error"] = error.what();
    }
    std::cout << am::dump_json(answer, -1) << std::endl;
  }
  return 0;
}
