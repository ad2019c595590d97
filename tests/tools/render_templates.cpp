// Renders templates that a script sends. Each line of standard input is a JSON object; each line of
// standard output is the answer to it.
//
//   render_templates < {"template": "{{ x }}", "variables": {"x": 1}, "now": 0}
//                    > {"text": "1", "spans": []}          or  {"error": "template:1: ..."}
//
// A request with "messages" renders a conversation (chat/chat_template.h). Such a request may also
// have "tools", "documents", "add_generation_prompt" and "special_tokens". Each span [begin, end)
// is a part of the text that the template marks by {% generation %}; begin and end count bytes.
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
