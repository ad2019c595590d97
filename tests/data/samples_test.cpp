// Tests samples that consist of examples: the packing of examples into rows, and conversations of
// which only some tokens count in the loss.
#include "am/data/samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/conversation.h"
#include "am/data/examples.h"
#include "am/data/packing.h"
#include "support/temporary_folder.h"

namespace am::data {
namespace {

using Ids = std::vector<int64_t>;

// A chat template similar to ChatML.
constexpr const char* kChatMl =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

Example example(const Ids& ids, const std::vector<bool>& counted) { return {ids, counted}; }

// Returns an example's bytes as text, with "_" for each byte that does not count in the loss.
std::string marked(const Example& of) {
  std::string text;
  for (size_t i = 0; i < of.ids.size(); ++i) {
    text += of.counted[i] ? static_cast<char>(of.ids[i]) : '_';
  }
  return text;
}

Example read(const std::string& line, LossOn loss_on, const char* chat_template = kChatMl) {
  const auto tokenizer = make_tokenizer("bytes");
  const chat::ChatTemplate chat(chat_template);
  const ConversationReader reader(*tokenizer, &chat, {.loss_on = loss_on});
  return reader.read(Json::parse(line), "a.jsonl:1");
}

}  // namespace

TEST_CASE("items are packed into the first row that has room") {
  using Rows = std::vector<std::vector<int64_t>>;
  CHECK(pack_first_fit({5, 4, 3, 2}, 7) == Rows{{0, 3}, {1, 2}});
  CHECK(pack_first_fit({7, 7, 1}, 7) == Rows{{0}, {1}, {2}});
  CHECK(pack_first_fit({}, 7).empty());
  std::mt19937 random(1);
  std::vector<int64_t> lengths(1000), free;
  for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random() % 50);
  Rows plain;  // first fit by its definition, in quadratic time
  for (size_t item = 0; item < lengths.size(); ++item) {
    size_t row = 0;
    while (row < free.size() && free[row] < lengths[item]) ++row;
    if (row == free.size()) {
      free.push_back(50);
      plain.emplace_back();
    }
    free[row] -= lengths[item];
    plain[row].push_back(static_cast<int64_t>(item));
  }
  CHECK(pack_first_fit(lengths, 50) == plain);
}

TEST_CASE("rows have whole examples, positions of their own, and padding without labels") {
  Examples examples;
  examples.add(example({1, 2, 3, 4}, {false, false, true, true}));
  examples.add(example({5, 6, 7}, {true, true, true}));
  examples.add(example({8, 9, 10, 11, 12, 13, 14}, {false, true, true, true, true, true, true}));
  examples.add(example({15, 16}, {true, false}));  // its only label does not count
  const auto samples = pack_examples(std::move(examples), {.seq_len = 6}, "test");
  REQUIRE(samples->size() == 2);
  SampleRow row(6);
  samples->read(0, row);
  CHECK(row.inputs == Ids{1, 2, 3, 5, 6, 0});
  CHECK(row.labels == Ids{-100, 3, 4, 6, 7, -100});
  CHECK(row.positions == Ids{0, 1, 2, 0, 1, 0});
  CHECK(samples->counted_labels(0) == 4);
  samples->read(1, row);
  CHECK(row.inputs == Ids{8, 9, 10, 11, 12, 13});
  CHECK(row.labels == Ids{9, 10, 11, 12, 13, 14});
  CHECK(samples->counted_labels(1) == 6);
  CHECK_THAT(samples->description(), Catch::Contains("3 examples") &&
                                         Catch::Contains("10 labels in 2 rows") &&
                                         Catch::Contains("1 dropped (no label that counts)"));
}

TEST_CASE("long examples are cut or dropped, and rows may have one example each") {
  const auto make = [](const ExampleOptions& options) {
    Examples examples;
    examples.add(example({1, 2, 3, 4, 5, 6}, {false, true, false, false, false, true}));
    examples.add(example({7, 8}, {false, true}));
    return pack_examples(std::move(examples), options, "test");
  };
  SampleRow row(4);
  const auto cut = make({.seq_len = 4, .max_length = 3, .packs = false});
  REQUIRE(cut->size() == 2);
  cut->read(0, row);
  CHECK(row.labels == Ids{2, -100, -100, -100});
  CHECK(row.positions == Ids{0, 1, 2, 3});
  CHECK(make({.seq_len = 4, .drops_long = true})->size() == 1);
  CHECK(make({.seq_len = 4})->fingerprint() == make({.seq_len = 4})->fingerprint());
  CHECK(make({.seq_len = 4})->fingerprint() != make({.seq_len = 5})->fingerprint());
  Examples none;
  none.add(example({1, 2}, {true, false}));
  CHECK_THROWS_WITH(pack_examples(std::move(none), {.seq_len = 4}, "test"),
                    Catch::Contains("no example has a label that counts"));
}

TEST_CASE("the loss counts what the assistant generates") {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"},)"
      R"( {"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]})";
  const std::string turn(std::string("<|user|>1+1<|end|><|assistant|>").size(), '_');
  CHECK(marked(read(line, LossOn::kAssistant)) == turn + "2<|end|>" + turn + "4<|end|>");
  const std::string last = marked(read(line, LossOn::kLast));
  CHECK(std::count(last.begin(), last.end(), '<') == 1);
  CHECK(last.substr(last.size() - 8) == "4<|end|>");
  CHECK(marked(read(line, LossOn::kAll)).find('_') == std::string::npos);
}

TEST_CASE("generation blocks of the template mark what counts") {
  const char* marking =
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }};{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}";
  const Example found =
      read(R"({"prompt": "ab", "completion": "cd"})", LossOn::kAssistant, marking);
  CHECK(marked(found) == std::string(std::string("<user>ab;<assistant>").size(), '_') + "cd;");
}

TEST_CASE("a template that changes earlier turns needs loss_on last") {
  const char* forgets =
      "{% for m in messages %}<{{ m.role }}>{% if loop.last or m.role == 'user' %}{{ m.content }}"
      "{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::string line =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
      R"( {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";
  CHECK_THROWS_WITH(read(line, LossOn::kAssistant, forgets),
                    Catch::Contains("a.jsonl:1: the chat template renders message 1 differently"));
  const std::string last = marked(read(line, LossOn::kLast, forgets));
  CHECK(last.back() == 'd');
  CHECK(std::count(last.begin(), last.end(), '_') == static_cast<int64_t>(last.size()) - 1);
}

TEST_CASE("the hint of a template that changes a turn depends on loss_on") {
  const char* counts = "{% for m in messages %}{{ messages|length }}{{ m.content }}{% endfor %}";
  const std::string line = R"({"prompt": "a", "completion": "b"})";
  const auto hint_of = [&](LossOn loss_on) {
    try {
      read(line, loss_on, counts);
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string();
  };
  CHECK(hint_of(LossOn::kAssistant) ==
        "set data.loss_on = \"last\", or use a template with {% generation %} blocks");
  CHECK(hint_of(LossOn::kLast) == "use a template with {% generation %} blocks");
}

TEST_CASE("token ids with labels are read as they are") {
  const Example found =
      read(R"({"input_ids": [3, 4, 5], "labels": [-100, 4, 5]})", LossOn::kAssistant);
  CHECK(found.ids == Ids{3, 4, 5});
  CHECK(found.counted == std::vector<bool>{false, true, true});
  CHECK_THROWS_WITH(
      read(R"({"input_ids": [3, 4], "labels": [-100, 5]})", LossOn::kAssistant),
      Catch::Contains("a.jsonl:1: label 1 is 5, but must be the token's id 4 or -100"));
  CHECK_THROWS_WITH(read(R"({"input_ids": [3], "labels": []})", LossOn::kAssistant),
                    Catch::Contains("lists of integers of equal length"));
}

TEST_CASE("other lines are refused with their place") {
  for (const char* line :
       {"[]", "{}", R"({"prompt": "a"})", R"({"prompt": 1, "completion": "b"})"}) {
    INFO(line);
    CHECK_THROWS_WITH(read(line, LossOn::kAssistant), Catch::StartsWith("a.jsonl:1: "));
  }
}

TEST_CASE("files of conversations are JSON Lines or an array, with columns of other names") {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& text, DataSpec spec = {}) {
    write_file_atomically(folder / "a.json", text);
    spec.kind = "chat";
    spec.paths = {folder / "a.json"};
    spec.vocab_size = 256;
    return open_samples(spec, {.seq_len = 8});
  };
  const auto lines = open(
      "{\"prompt\": \"ab\", \"completion\": \"c\"}\n\n"
      "{\"prompt\": \"d\", \"completion\": \"ef\"}\n");
  CHECK(lines->counted_labels(0) == 3);
  const auto array = open(
      "[{\"prompt\": \"ab\", \"completion\": \"c\"},\n"
      " {\"prompt\": \"d\", \"completion\": \"ef\"}]");
  CHECK(array->fingerprint() == lines->fingerprint());
  DataSpec renamed;
  renamed.columns = {{"prompt", "question"}, {"completion", "answer"}};
  renamed.eod_token = 0;
  const auto other = open("{\"question\": \"ab\", \"answer\": \"c\"}\n", renamed);
  SampleRow row(8);
  other->read(0, row);
  CHECK(row.labels == Ids{-100, 'c', 0, -100, -100, -100, -100, -100});
  CHECK_THROWS_WITH(open("{\"prompt\": \"ab\"}\n"), Catch::Contains("a.json:1: "));
  CHECK_THROWS_WITH(open("{\n"), Catch::Contains("a.json:1: the line is not JSON"));
  CHECK_THROWS_WITH(
      open("{\"input_ids\": [1, 256]}\n"),
      Catch::Contains("256 is outside the model's vocabulary, which has the ids 0 to 255"));
}

}  // namespace am::data
