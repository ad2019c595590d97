#include "am/data/conversation.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/guarded_text.h"

namespace am::data {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kFormat, cat(where, ": ", what),
              "a line must have \"messages\", or \"prompt\" and \"completion\", or \"input_ids\"; "
              "data.columns can rename these keys");
}

// Returns the length in bytes of the common prefix of two texts.
size_t common_length(std::string_view a, std::string_view b) {
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

bool is_of_assistant(const Json& message) {
  return message.is_object() && message.value("role", Json()) == "assistant";
}

// Converts a string to a list with one message of role `role`. Returns any other value unchanged.
Json messages_of(const Json& value, const char* role) {
  if (!value.is_string()) return value;
  return Json::array({Json{{"role", role}, {"content", value}}});
}

}  // namespace

ConversationReader::ConversationReader(const Tokenizer& tokenizer,
                                       const chat::ChatTemplate* chat_template,
                                       ConversationOptions options)
    : tokenizer_(tokenizer), template_(chat_template), options_(std::move(options)) {
  if (options_.split_special_tokens) guarded_tokens_ = guarded_tokens(tokenizer.special_tokens());
}

// Returns the name that the file uses for the key `name`, according to data.columns.
std::string ConversationReader::key_of(std::string_view name) const {
  std::string key(name);
  for (const auto& [ours, theirs] : options_.columns) {
    if (ours == name) key = theirs;
  }
  return key;
}

std::vector<std::string> ConversationReader::keys() const {
  std::vector<std::string> keys;
  for (const char* name : {"input_ids", "labels", "messages", "tools", "prompt", "completion"}) {
    keys.push_back(key_of(name));
  }
  return keys;
}

// Returns the line's value for the key `name`, whose name in the file is key_of(name). Returns null
// if the line lacks the key, or if the value is null.
const Json* ConversationReader::column(const Json& line, std::string_view name) const {
  const auto found = line.find(key_of(name));
  return found == line.end() || found->is_null() ? nullptr : &*found;
}

Example ConversationReader::read(const Json& line, const std::string& where) const {
  if (!line.is_object()) refuse(where, "the line is not an object");
  if (const Json* ids = column(line, "input_ids"))
    return of_ids(*ids, column(line, "labels"), where);
  if (const Json* messages = column(line, "messages")) {
    return of_messages(*messages, column(line, "tools"), where);
  }
  const Json *prompt = column(line, "prompt"), *completion = column(line, "completion");
  if (prompt == nullptr || completion == nullptr) refuse(where, "the line has no conversation");
  if (template_ == nullptr && prompt->is_string() && completion->is_string()) {
    return of_texts(prompt->get<std::string>(), completion->get<std::string>());
  }
  Json messages = messages_of(*prompt, "user");
  const Json answer = messages_of(*completion, "assistant");
  if (!messages.is_array() || !answer.is_array()) {
    refuse(where, "\"prompt\" and \"completion\" must be texts or lists of messages");
  }
  messages.insert(messages.end(), answer.begin(), answer.end());
  return of_messages(messages, column(line, "tools"), where);
}

Example ConversationReader::of_ids(const Json& ids, const Json* labels,
                                   const std::string& where) const {
  const auto is_list = [](const Json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& each) {
             return each.is_number_integer();
           });
  };
  if (!is_list(ids) || (labels != nullptr && (!is_list(*labels) || labels->size() != ids.size()))) {
    refuse(where, "\"input_ids\" and \"labels\" must be lists of integers of equal length");
  }
  Example example;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = ids[i].get<int64_t>();
    const int64_t label = labels == nullptr ? id : (*labels)[i].get<int64_t>();
    if (label != id && label != kIgnoredLabel) {
      refuse(where, cat("label ", i, " is ", label, ", but must be the token's id ", id, " or ",
                        kIgnoredLabel));
    }
    example.ids.push_back(id);
    example.counted.push_back(label == id || options_.loss_on == LossOn::kAll);
  }
  return example;
}

Example ConversationReader::of_texts(const std::string& prompt,
                                     const std::string& completion) const {
  Example example;
  const bool splits = options_.split_special_tokens;
  example.ids =
      tokenizer_.encode(prompt, {.add_special_tokens = true, .split_special_tokens = splits});
  example.counted.resize(example.ids.size(), options_.loss_on == LossOn::kAll);
  const std::vector<int64_t> answer =
      tokenizer_.encode(completion, {.split_special_tokens = splits});
  example.ids.insert(example.ids.end(), answer.begin(), answer.end());
  if (options_.end_token) example.ids.push_back(*options_.end_token);
  example.counted.resize(example.ids.size(), true);
  return example;
}

Example ConversationReader::of_messages(const Json& messages, const Json* tools,
                                        const std::string& where) const {
  if (template_ == nullptr) {
    throw Error(
        ErrorKind::kFormat,
        cat(where, ": messages need a chat template, which the tokenizer's folder lacks"),
        "put the model's chat_template.jinja or tokenizer_config.json beside its tokenizer");
  }
  chat::ChatRequest request;
  request.messages = messages;
  if (tools != nullptr) request.tools = *tools;
  std::optional<TextGuard> guard;
  if (options_.split_special_tokens) {
    guard.emplace(guarded_tokens_, dump_json(request.messages, -1) + dump_json(request.tools, -1));
    guard->guard(request.messages);
    guard->guard(request.tools);
  }
  std::vector<Span> spans;
  std::string text;
  try {
    const chat::Rendered whole = template_->render(request);
    text = whole.text;
    if (options_.loss_on == LossOn::kAll) {
      spans = {{0, text.size()}};
    } else {
      spans = generated_spans(request, whole, where);
    }
  } catch (const Error& error) {
    if (starts_with(error.what(), where)) throw;
    throw Error(error.kind(), cat(where, ": ", error.what()), error.hint());
  }
  Example example;
  std::vector<size_t> guards;
  if (guard) {
    guards = guard->remove(text);
    for (auto& [begin, end] : spans) {
      begin = guard->without_guards(begin, guards);
      end = guard->without_guards(end, guards);
    }
  }
  for (const TokenPlace& token : tokenizer_.encode_with_offsets(text, {.inside_text = guards})) {
    const bool counted = std::any_of(spans.begin(), spans.end(), [&](const Span& span) {
      return token.begin < span.second && token.end > span.first;
    });
    example.ids.push_back(token.id);
    example.counted.push_back(counted);
  }
  return example;
}

// Returns the parts of the text that the assistant generates; for LossOn::kLast, only the last
// part.
std::vector<ConversationReader::Span> ConversationReader::generated_spans(
    const chat::ChatRequest& request, const chat::Rendered& whole, const std::string& where) const {
  std::vector<Span> spans;
  for (const auto& span : whole.generated) spans.emplace_back(span.begin, span.end);
  const auto& messages = request.messages;
  for (size_t i = messages.size(); i-- > 0 && whole.generated.empty();) {
    if (!is_of_assistant(messages[i])) continue;
    chat::ChatRequest part = request;
    part.messages = Json(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(i));
    part.add_generation_prompt = true;
    const std::string before = i == 0 ? std::string() : template_->render(part).text;
    part.add_generation_prompt = false;
    size_t begin = before.size();
    bool found = starts_with(whole.text, before);
    if (!found) {
      // The generation prompt may end with text that the rendered message lacks, for example
      // "<think>".
      const std::string without = template_->render(part).text;
      begin = common_length(before, whole.text);
      found = starts_with(whole.text, without) && begin >= without.size();
    }
    part.messages.push_back(messages[i]);
    const bool last = i + 1 == messages.size();
    const std::string after = last ? whole.text : template_->render(part).text;
    if (!found || !starts_with(whole.text, after)) {
      throw Error(ErrorKind::kFormat,
                  cat(where, ": the chat template renders message ", i,
                      " differently if other messages follow, so that its tokens cannot be found"),
                  cat(options_.loss_on == LossOn::kLast ? "" : "set data.loss_on = \"last\", or ",
                      "use a template with {% generation %} blocks"));
    }
    spans.emplace_back(begin, after.size());
    if (options_.loss_on == LossOn::kLast) break;
  }
  std::sort(spans.begin(), spans.end());
  if (options_.loss_on == LossOn::kLast && spans.size() > 1) spans = {spans.back()};
  return spans;
}

}  // namespace am::data
