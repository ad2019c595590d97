// Tests that TextStream's pieces together are the text of all ids, and that no piece but the last
// ends in the middle of a character.
#include "am/data/text_stream.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "support/folders.h"

namespace am::data {
namespace {

std::string streamed(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  TextStream stream(tokenizer);
  std::string text;
  for (const int64_t id : ids) {
    text += stream.add(id);
  }
  return text + stream.finish();
}

TEST_CASE("a stream of bytes shows whole characters") {
  const auto bytes = make_tokenizer("bytes");
  TextStream stream(*bytes);
  CHECK(stream.add('a') == "a");
  CHECK(stream.add(0xC3).empty());
  CHECK(stream.add(0xA9) == "é");
  CHECK(stream.add(0xF0).empty());
  CHECK(stream.add(0x9F).empty());
  CHECK(!stream.finish().empty());
}

TEST_CASE("the pieces of a stream are the text of all ids") {
  std::mt19937 random(7);
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(test::kDataFolder) + "/tokenizers/kinds")) {
    if (entry.path().filename() == "cases.json") continue;
    const auto tokenizer = make_tokenizer(entry.path().string());
    INFO(entry.path().string());
    const std::vector<std::string> words = {
        "The dog", " 's turn:", "\xE2\x82\xAC 12", "\xF0\x9F\x9A\x80", "\xE6\x88\x91 ok\n", "  x",
        "",        " "};
    for (int repeat = 0; repeat < 100; ++repeat) {
      std::vector<int64_t> ids;
      for (int count = 0; count < 6; ++count) {
        const auto more = tokenizer->encode(words[random() % words.size()]);
        ids.insert(ids.end(), more.begin(), more.end());
      }
      CHECK(streamed(*tokenizer, ids) == tokenizer->decode(ids));
    }
  }
}

}  // namespace
}  // namespace am::data
