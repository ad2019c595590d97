// Tests chat templates: rendered conversations have transformers' text and transformers' spans of
// generated text, and model folders are searched for templates and special tokens.
#include "am/chat/chat_template.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "support/folders.h"

using namespace am;
using namespace am::chat;
namespace fs = std::filesystem;

namespace {

const std::string kData = std::string(am::test::kDataFolder) + "/chat/";

ChatRequest request_of(const Json& chat) {
  ChatRequest out;
  out.messages = chat["messages"];
  out.tools = chat.contains("tools") ? chat["tools"] : Json();
  out.documents = chat.contains("documents") ? chat["documents"] : Json();
  out.add_generation_prompt = chat["add_generation_prompt"].get<bool>();
  out.variables = chat["variables"];
  return out;
}

ChatRequest greeting() {
  ChatRequest out;
  out.messages = Json::parse(R"([{"role": "user", "content": "Hi"}])");
  return out;
}

// A model folder that exists for the length of a test.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name)
      : path_(fs::temp_directory_path() / ("am_chat_" + name)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  ~ModelFolder() { fs::remove_all(path_); }

  ModelFolder& add(const std::string& file, const std::string& text) {
    fs::create_directories((path_ / file).parent_path());
    write_file_atomically(path_ / file, text);
    return *this;
  }
  const fs::path& path() const { return path_; }
  std::string rendered(const ChatRequest& request = greeting()) const {
    return ChatTemplate::from_folder(path_).render(request).text;
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("conversations have transformers' text and spans, or are refused as there") {
  const Json data = Json::parse(read_file(kData + "conversations.json"));
  RenderOptions options;
  options.now = 1'700'000'000;
  size_t rendered = 0, spans = 0;
  for (const Json& entry : data) {
    const auto name = entry["template"].get<std::string>();
    const ChatTemplate chat(read_file(kData + "templates/" + name), entry["special_tokens"]);
    for (const Json& expected : entry["chats"]) {
      INFO(name << ": " << expected.dump());
      const ChatRequest request = request_of(expected);
      if (expected.contains("error")) {
        CHECK_THROWS_AS(chat.render(request, options), Error);
        continue;
      }
      const Rendered actual = chat.render(request, options);
      CHECK(actual.text == expected["text"].get<std::string>());
      Json found = Json::array();
      for (const GeneratedSpan& span : actual.generated) found.push_back({span.begin, span.end});
      CHECK(found == expected["spans"]);
      ++rendered;
      spans += found.size();
    }
  }
  CHECK(rendered > 80);
  CHECK(spans > 10);
}

TEST_CASE("a span is the bytes of what the assistant says") {
  const ChatTemplate chat(
      "{% for m in messages %}é{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ "
      "m.content }}{% endgeneration %}{% endif %}{% endfor %}");
  ChatRequest request;
  request.messages = Json::parse(
      R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "größer"}])");
  const Rendered out = chat.render(request);
  REQUIRE(out.generated.size() == 1);
  const GeneratedSpan span = out.generated[0];
  CHECK(out.text.substr(span.begin, span.end - span.begin) == "größer");
}

TEST_CASE("a folder's chat_template.jinja comes before its tokenizer_config.json") {
  ModelFolder folder("file");
  folder.add("tokenizer_config.json",
             R"({"chat_template": "config{{ eos_token }}", "eos_token": "</s>"})");
  CHECK(folder.rendered() == "config</s>");
  folder.add("chat_template.jinja", "file{{ eos_token }}\n");
  CHECK(folder.rendered() == "file</s>");
}

TEST_CASE("named templates: default, and tool_use if there are tools") {
  ModelFolder folder("named");
  folder.add("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"},
      {"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"}]})");
  ChatRequest request = greeting();
  CHECK(folder.rendered(request) == "d");
  request.tools = Json::array();
  CHECK(folder.rendered(request) == "t");
  request.template_name = "rag";
  CHECK(folder.rendered(request) == "r");
  request.template_name = "none";
  CHECK_THROWS_WITH(folder.rendered(request), "there is no chat template \"none\"");
  CHECK(ChatTemplate::from_folder(folder.path()).names() ==
        std::vector<std::string>{"default", "rag", "tool_use"});
}

TEST_CASE("templates of the folder additional_chat_templates") {
  ModelFolder folder("additional");
  folder.add("chat_template.jinja", "d").add("additional_chat_templates/tool_use.jinja", "t");
  ChatRequest request = greeting();
  CHECK(folder.rendered(request) == "d");
  request.tools = Json::parse(R"([{"name": "f"}])");
  CHECK(folder.rendered(request) == "t");
}

TEST_CASE("special tokens are texts or AddedToken objects; variables replace them") {
  ModelFolder folder("tokens");
  const std::string config =
      R"({"chat_template": "{{ bos_token }}{{ eos_token }}{{ image_token }}{{ pad_token }}",
      "bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>", "pad_token": null,
      "extra_special_tokens": {"image_token": "<img>"}, "add_bos_token": true)";
  folder.add("tokenizer_config.json", config + "}");
  CHECK(folder.rendered() == "<s></s><img>");
  ChatRequest request = greeting();
  request.variables["eos_token"] = "!";
  CHECK(folder.rendered(request) == "<s>!<img>");
  folder.add("special_tokens_map.json", R"({"eos_token": {"content": "<eos>"}})");
  CHECK(folder.rendered() == "<s><eos><img>");
  // transformers reads special_tokens_map.json only if tokenizer_config.json lacks
  // added_tokens_decoder.
  folder.add("tokenizer_config.json", config + R"(, "added_tokens_decoder": {}})");
  CHECK(folder.rendered() == "<s></s><img>");
}

TEST_CASE("messages lose keys with null, and have their reasoning under each name") {
  const ChatTemplate chat(
      "{% for m in messages %}{{ m }}{% endfor %}{{ tools }}{{ documents }}{{ "
      "add_generation_prompt }}");
  ChatRequest request;
  request.messages =
      Json::parse(R"([{"role": "a", "content": null, "thinking": null, "reasoning": "r"}])");
  CHECK(chat.render(request).text ==
        "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}NoneNoneFalse");
}

TEST_CASE("an invalid conversation is an error") {
  const ChatTemplate chat("x");
  ChatRequest request;
  CHECK_THROWS_WITH(chat.render(request), "the conversation is not a list of messages");
  request.messages = Json::array();
  CHECK_THROWS_WITH(chat.render(request), "the conversation has no message");
  request.messages = Json::parse("[5]");
  CHECK_THROWS_WITH(chat.render(request),
                    "the conversation has a message that is not an object: 5");
}

TEST_CASE("a folder without a template, or with a wrong one, is an error that names the file") {
  ModelFolder folder("wrong");
  CHECK_THROWS_WITH(folder.rendered(), Catch::Contains("the model has no chat template"));
  folder.add("tokenizer_config.json", R"({"chat_template": 5})");
  CHECK_THROWS_WITH(folder.rendered(),
                    Catch::Contains("tokenizer_config.json: \"chat_template\" is neither"));
  folder.add("tokenizer_config.json", R"({"chat_template": "a\n{% if %}"})");
  CHECK_THROWS_WITH(folder.rendered(), Catch::Contains("tokenizer_config.json: chat_template:2: "));
  folder.add("chat_template.jinja", "{{");
  CHECK_THROWS_WITH(folder.rendered(), Catch::Contains("chat_template.jinja:1: "));
}
