// Compares tokenizers of every kind with the libraries that define them, on 200 texts. The expected
// values are written by scripts/fixtures/make_tokenizer_fixtures.py, which describes their form.
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/data/tokenizer.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::data;

namespace {

namespace fs = std::filesystem;

const fs::path kKindFolder = fs::path(am::test::kDataFolder) / "tokenizers" / "kinds";

const Json& cases() {
  static const Json all = Json::parse(read_file(kKindFolder / "cases.json"));
  return all;
}

// Returns a 32-bit hash of the data as eight digits, as the fixture stores it.
std::string fnv1a(const std::string& data) {
  uint32_t value = 0x811C9DC5;
  for (const char c : data) value = (value ^ static_cast<unsigned char>(c)) * 0x01000193U;
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", value);
  return text;
}

// Returns ids and decoded text in the fixture's form. If `whole`, adds each token's position in the
// text and the decoding without special tokens, which only tokenizer.json's library returns.
std::string summary(const Tokenizer& tokenizer, const std::string& text,
                    const EncodeOptions& options, bool whole) {
  const std::vector<int64_t> ids = tokenizer.encode(text, options);
  const std::vector<TokenPlace> places = tokenizer.encode_with_offsets(text, options);
  std::string out;
  REQUIRE(ids.size() == places.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    CHECK(places[i].id == ids[i]);
    out += cat(i == 0 ? "" : " ", ids[i]);
    if (whole) out += cat(":", places[i].begin, "-", places[i].end);
  }
  out += cat("\n", tokenizer.decode(ids), "\n");
  if (whole) out += tokenizer.decode(ids, /*skip_special_tokens=*/true);
  return out + "\n";
}

void check_kind(const fs::path& file, const std::string& name) {
  const auto tokenizer = make_tokenizer(file.string());
  const Json& expected = cases()["files"][name];
  const bool json =
      tokenizer->name().find("tekken") == std::string::npos && file.extension() == ".json";
  const Json& texts = cases()["texts"];
  REQUIRE(texts.size() == 200);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    INFO(name << " " << text);
    EncodeOptions plain;
    plain.split_special_tokens = !json;
    if (json) {
      CHECK(tokenizer->encode(text) == expected["ids"][i].get<std::vector<int64_t>>());
    }
    std::string all = summary(*tokenizer, text, plain, json);
    if (json) {
      all += summary(*tokenizer, text, {.add_special_tokens = true}, json);
      all += summary(*tokenizer, text, {.split_special_tokens = true}, json);
    } else {
      CHECK(tokenizer->encode(text, plain) == expected["ids"][i].get<std::vector<int64_t>>());
    }
    CHECK(fnv1a(all) == expected["sums"].get<std::string>().substr(8 * i, 8));
  }
}

}  // namespace

TEST_CASE("ids, places and decoded texts equal the libraries'") {
  std::vector<std::string> names;
  for (const auto& [name, expected] : cases()["files"].items()) names.push_back(name);
  REQUIRE(names.size() == 27);
  for (const std::string& name : names) {
    if (name.find(".tiktoken") == std::string::npos) check_kind(kKindFolder / name, name);
  }
}

TEST_CASE("a file of tiktoken has the encoding that its name says") {
  const TemporaryFolder folder;
  for (const char* name :
       {"cl100k.tiktoken", "o200k.tiktoken", "llama3.tiktoken", "kimi.tiktoken"}) {
    fs::copy_file(kKindFolder / "cl100k.tiktoken", folder / name);
    check_kind(folder / name, name);
  }
}
