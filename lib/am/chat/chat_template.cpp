#include "am/chat/chat_template.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"

namespace am::chat {
namespace {

namespace fs = std::filesystem;

Json read_object(const fs::path& path) {
  return fs::exists(path) ? parse_json_object(read_file(path), path.string()) : Json::object();
}

// Adds the special tokens of a tokenizer's configuration to `out`. These are the keys that end with
// "_token", whose values are texts or AddedToken objects with "content", and the entries of
// "extra_special_tokens" if this value is an object.
void add_special_tokens(const Json& config, Json& out) {
  for (const auto& item : config.items()) {
    const Json& value = item.value();
    if (item.key() == "extra_special_tokens" && value.is_object()) {
      for (const auto& extra : value.items()) {
        if (extra.value().is_string()) out[extra.key()] = extra.value();
      }
    }
    if (!ends_with(item.key(), "_token")) continue;
    const auto content = value.is_object() ? value.find("content") : value.end();
    if (value.is_string()) {
      out[item.key()] = value;
    } else if (value.is_object() && content != value.end() && content->is_string()) {
      out[item.key()] = *content;
    }
  }
}

// The templates of a model folder, by name. Each value is the template's text, and the file from
// which it was read.
using Sources = std::map<std::string, std::pair<std::string, std::string>>;

Sources sources_of_files(const fs::path& folder) {
  Sources out;
  const auto add = [&](const std::string& name, const fs::path& path) {
    out[name] = {read_file(path), path.string()};
  };
  if (fs::exists(folder / "chat_template.jinja")) add("default", folder / "chat_template.jinja");
  const fs::path others = folder / "additional_chat_templates";
  if (!fs::is_directory(others)) return out;
  for (const auto& entry : fs::directory_iterator(others)) {
    if (entry.path().extension() == ".jinja") add(entry.path().stem().string(), entry.path());
  }
  return out;
}

Sources sources_of_config(const Json& config, const std::string& file) {
  const auto fail = [&] [[noreturn]] {
    throw Error(ErrorKind::kFormat,
                cat(file, ": \"chat_template\" is neither a text nor a list of {name, template}"));
  };
  Sources out;
  const Json value = config.value("chat_template", Json());
  const std::string place = cat(file, ": chat_template");
  if (value.is_string()) {
    out["default"] = {value.get<std::string>(), place};
  } else if (value.is_array()) {
    for (const Json& entry : value) {
      const bool is_named = entry.is_object() && entry.value("name", Json()).is_string() &&
                            entry.value("template", Json()).is_string();
      if (!is_named) fail();
      out[entry["name"].get<std::string>()] = {entry["template"].get<std::string>(), place};
    }
  } else if (!value.is_null()) {
    fail();
  }
  return out;
}

[[noreturn]] void fail_messages(const std::string& reason) {
  throw Error(ErrorKind::kFormat, cat("the conversation ", reason),
              "a conversation is a list such as [{\"role\": \"user\", \"content\": \"Hi\"}]");
}

// Returns messages as templates expect them: without keys whose value is null, and with the
// reasoning under both names that templates read, "thinking" and "reasoning_content".
Json prepared(const Json& messages) {
  if (!messages.is_array()) fail_messages("is not a list of messages");
  if (messages.empty()) fail_messages("has no message");
  Json out = Json::array();
  for (const Json& message : messages) {
    if (!message.is_object())
      fail_messages(cat("has a message that is not an object: ", dump_json(message, -1)));
    Json kept = Json::object();
    const Json* reasoning = nullptr;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      const auto found = message.find(name);
      if (reasoning == nullptr && found != message.end() && !found->is_null()) reasoning = &*found;
    }
    if (reasoning != nullptr) kept["thinking"] = *reasoning;
    for (const auto& item : message.items()) {
      if (!item.value().is_null()) kept[item.key()] = item.value();
    }
    if (reasoning != nullptr) kept["reasoning_content"] = *reasoning;
    out.push_back(std::move(kept));
  }
  return out;
}

}  // namespace

ChatTemplate ChatTemplate::from_folder(const fs::path& folder) {
  if (auto found = find_in(folder)) return *std::move(found);
  throw Error(ErrorKind::kFormat, cat(folder.string(), ": the model has no chat template"),
              "a template is the file chat_template.jinja, or \"chat_template\" in "
              "tokenizer_config.json; base models often have none");
}

std::optional<ChatTemplate> ChatTemplate::find_in(const fs::path& folder) {
  const fs::path config_path = folder / "tokenizer_config.json";
  const Json config = read_object(config_path);
  Sources sources = sources_of_files(folder);
  if (sources.empty()) sources = sources_of_config(config, config_path.string());
  if (sources.empty()) return std::nullopt;
  ChatTemplate out;
  for (auto& [name, source] : sources)
    out.templates_.emplace(name, Template(source.first, source.second));
  add_special_tokens(config, out.special_tokens_);
  // Older models store their special tokens in special_tokens_map.json, newer models in
  // tokenizer_config.json, together with "added_tokens_decoder".
  if (!config.contains("added_tokens_decoder")) {
    add_special_tokens(read_object(folder / "special_tokens_map.json"), out.special_tokens_);
  }
  return out;
}

ChatTemplate::ChatTemplate(std::string_view source, Json special_tokens)
    : special_tokens_(std::move(special_tokens)) {
  templates_.emplace("default", Template(source));
}

Rendered ChatTemplate::render(const ChatRequest& request, const RenderOptions& options) const {
  Json variables = special_tokens_;
  for (const auto& item : request.variables.items()) variables[item.key()] = item.value();
  variables["messages"] = prepared(request.messages);
  variables["tools"] = request.tools;
  variables["documents"] = request.documents;
  variables["add_generation_prompt"] = request.add_generation_prompt;
  return chosen(request).render(variables, options);
}

std::vector<std::string> ChatTemplate::names() const {
  std::vector<std::string> out;
  for (const auto& entry : templates_) out.push_back(entry.first);
  return out;
}

const Template& ChatTemplate::chosen(const ChatRequest& request) const {
  const std::string tools =
      !request.tools.is_null() && templates_.count("tool_use") > 0 ? "tool_use" : "default";
  const auto found = templates_.find(request.template_name.empty() ? tools : request.template_name);
  if (found == templates_.end()) {
    throw Error(ErrorKind::kUsage,
                request.template_name.empty()
                    ? std::string("the model has several chat templates and none is called default")
                    : cat("there is no chat template \"", request.template_name, "\""),
                cat("the model has the templates: ", join(names(), ", ")));
  }
  return found->second;
}

}  // namespace am::chat
