#include "am/chat/template.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/chat/lexer.h"

namespace am::chat {

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  if (!is_utf8(source)) throw Error(ErrorKind::kFormat, cat(name_, ": the template is not UTF-8"));
  try {
    body_ = std::make_shared<const Block>(parse(source));
  } catch (const SyntaxFailure& failure) {
    throw Error(ErrorKind::kFormat, cat(name_, ":", failure.line, ": ", failure.what()));
  }
}

Rendered Template::render(const Json& variables, const RenderOptions& options) const {
  Heap heap(options.limits);
  Variables values;
  try {
    for (const auto& item : variables.items()) {
      values.emplace_back(item.key(), heap.from_json(item.value()));
    }
  } catch (const Failure& failure) {
    throw Error(ErrorKind::kFormat, cat(name_, ": in the conversation: ", failure.what()));
  }
  Interpreter in(heap, values, options.now);
  try {
    return in.render(*body_);
  } catch (const Failure& failure) {
    throw Error(ErrorKind::kFormat, cat(name_, ":", in.line(), ": ", failure.what()));
  }
}

}  // namespace am::chat
