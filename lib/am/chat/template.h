// Renders Jinja templates as Hugging Face's chat templates use them, without Python.
//
//   const chat::Template greeting("{% for m in messages %}<{{ m.role }}>{% endfor %}");
//   greeting.render({{"messages", {{{"role", "user"}}}}}).text;     // "<user>"
//
// The language is that of transformers' apply_chat_template: jinja2's sandbox with trim_blocks,
// lstrip_blocks and loop controls, the filter tojson as Python's json.dumps, raise_exception and
// strftime_now. Rendering reports the positions of {% generation %} blocks in the rendered text.
// Filters that chat templates do not need (pprint, random, striptags, urlize, wordwrap, xmlattr,
// filesizeformat) and tags that read other templates (extends, include, import, block) are errors.
//
// Templates are not trusted: chat::Limits (chat/value.h) bounds their work, memory and recursion.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/chat/interpreter.h"
#include "am/chat/syntax.h"

namespace am::chat {

struct RenderOptions {
  Limits limits = {};
  // Time that strftime_now formats, in seconds since 1970; nullopt: the current time.
  std::optional<int64_t> now = {};
};

class Template {
 public:
  // Parses the template `source`. `name` is the template's file name in error messages. Throws
  // Error(kFormat), with the line if the error is a syntax error.
  explicit Template(std::string_view source, std::string name = "chat_template.jinja");

  // Renders the template. `variables` is a JSON object with the template's variables. Throws
  // Error(kFormat) with the template's line if an expression fails, the template raises an
  // exception, or a limit is exceeded. Several threads can render at once.
  Rendered render(const Json& variables, const RenderOptions& options = {}) const;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::shared_ptr<const Block> body_;
};

}  // namespace am::chat
