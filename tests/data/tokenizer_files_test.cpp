// Tests tokenizers of all kinds of files: special tokens, bytes and places of tokens, files found
// in a folder, and errors for damaged files other than tokenizer.json.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/tokenizer.h"
#include "am/data/tokenizer/base64.h"
#include "am/data/tokenizer/charsmap.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::data;

namespace {

namespace fs = std::filesystem;

const fs::path kKinds = fs::path(am::test::kDataFolder) / "tokenizers" / "kinds";

std::string error_of(const std::string& content, const std::string& file) {
  try {
    parse_tokenizer(content, file);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return error.what();
  }
  FAIL("parsed");
  return {};
}

// Returns a field of a protocol buffers message that contains bytes.
std::string field(int number, const std::string& bytes) {
  return cat(static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size()), bytes);
}

// Returns a piece of a SentencePiece model. The type 1 is a normal piece, 2 the unknown piece.
std::string piece(const std::string& text, int type = 1) {
  return field(1, cat(field(1, text), '\x18', static_cast<char>(type)));
}

void write(const fs::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}

}  // namespace

TEST_CASE("special tokens by name") {
  const auto llama = make_tokenizer(kKinds / "llama2.json");
  CHECK(llama->token_id("</s>") == 2);
  CHECK(llama->required_token_id("</s>") == 2);
  CHECK(llama->token_id("<0x01>") == llama->encode("\x01").back());
  CHECK(llama->special_tokens() == std::vector<std::string>{"<unk>", "<s>", "</s>"});
  CHECK_FALSE(llama->token_id("<nothing>"));
  CHECK_FALSE(llama->token_id(""));
  try {
    llama->required_token_id("<\\s>");
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kPlan);
    CHECK_THAT(error.what(), Catch::EndsWith("has no token \"<\\s>\""));
    CHECK(error.hint() == "did you mean \"<s>\"?");
  }
  try {
    llama->required_token_id("<|end_of_text|>");
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.hint() == "its special tokens include <unk>, <s>, </s>");
  }
  CHECK_THROWS_WITH(make_tokenizer("bytes")->required_token_id("<s>"),
                    "the tokenizer bytes has no token \"<s>\"");
}

TEST_CASE("tokens as the vocabulary writes them, and as bytes") {
  const auto llama = make_tokenizer(kKinds / "llama2.json");
  const auto id = [&](const char* token) { return llama->required_token_id(token); };
  CHECK(llama->token(id("\u2581the")) == "\u2581the");
  CHECK(llama->token_bytes(id("\u2581the")) == " the");
  CHECK(llama->token_bytes(id("<0xE2>")) == "\xE2");
  CHECK(llama->token_bytes(id("</s>")) == "</s>");
  CHECK(llama->token(1'000'000).empty());
  CHECK(llama->token(-1).empty());
  const auto gpt2 = make_tokenizer(kKinds / "gpt2_template.json");
  CHECK(gpt2->token_bytes(gpt2->required_token_id("\u0120t")) == " t");
  CHECK(gpt2->token_bytes(gpt2->required_token_id("\u00E2")) == "\xE2");
}

TEST_CASE("places are bytes of the text, also of text that is not UTF-8") {
  const auto gpt2 = make_tokenizer(kKinds / "llama3_template.json");
  const std::string text = "a\xFF\xC3 b";
  std::string covered;
  for (const TokenPlace& place : gpt2->encode_with_offsets(text)) {
    CHECK(place.begin <= place.end);
    CHECK(place.end <= text.size());
    if (place.end > covered.size())
      covered += text.substr(covered.size(), place.end - covered.size());
  }
  CHECK(covered == text);
}

TEST_CASE("a folder's tokenizer is found by its name, and its kind by its content") {
  const TemporaryFolder folder;
  fs::copy_file(kKinds / "cl100k.tiktoken", folder / "tokenizer.model");
  CHECK_THROWS_WITH(make_tokenizer(folder.path()), Catch::Contains("no known encoding has"));
  write(folder / "tokenizer_config.json", R"({"pat_str": "\\S+|\\s+", "added_tokens_decoder": {
    "600": {"content": "<|go|>", "special": true, "lstrip": true}}})");
  const auto ranked = make_tokenizer(folder.path());
  CHECK(ranked->encode(" <|go|>") == std::vector<int64_t>{600});
  CHECK(ranked->vocab_size() == 601);
  fs::remove(folder / "tokenizer_config.json");
  fs::copy_file(kKinds / "llama2.model", folder / "tokenizer.model",
                fs::copy_options::overwrite_existing);
  CHECK(make_tokenizer(folder.path())->required_token_id("<s>") == 1);
  fs::copy_file(kKinds / "tekken.json", folder / "tekken.json");
  CHECK(make_tokenizer(folder.path())->required_token_id("[INST]") == 3);
  fs::copy_file(kKinds / "mistral.json", folder / "tokenizer.json");
  CHECK(make_tokenizer(folder.path())->required_token_id("[INST]") > 256);
}

TEST_CASE("tokens around a text") {
  const EncodeOptions special = {.add_special_tokens = true};
  const auto ends = [&](const fs::path& file) {
    const auto tokenizer = make_tokenizer(file);
    std::vector<std::string> out;
    for (const int64_t id : tokenizer->encode("", special)) out.push_back(tokenizer->token(id));
    return join(out, " ");
  };
  CHECK(ends(kKinds / "llama2.model") == "<s>");
  CHECK(ends(kKinds / "t5.model") == "</s>");
  CHECK(ends(kKinds / "tekken.json") == "<s>");
  CHECK(ends(kKinds / "xlmr.json") == "<s> </s>");
  CHECK(ends(kKinds / "qwen3.json").empty());
  const TemporaryFolder folder;
  fs::copy_file(kKinds / "cl100k.tiktoken", folder / "llama3.model");
  CHECK(ends(folder / "llama3.model") == "<|begin_of_text|>");
  fs::copy_file(kKinds / "llama2.model", folder / "tokenizer.model");
  write(folder / "tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  CHECK(ends(folder / "tokenizer.model") == "</s>");
  write(folder / "tokenizer_config.json", R"({"add_bos_token": "yes"})");
  CHECK_THROWS_WITH(ends(folder / "tokenizer.model"),
                    Catch::Contains("add_bos_token: the value is not true or false"));
}

TEST_CASE("special tokens in text, of files that do not find them themselves") {
  for (const char* name : {"llama2.model", "tekken.json"}) {
    const auto tokenizer = make_tokenizer(kKinds / name);
    const std::string text = "a</s>b";
    const auto found = tokenizer->encode(text);
    const auto split = tokenizer->encode(text, {.split_special_tokens = true});
    const auto end = tokenizer->required_token_id("</s>");
    CHECK(std::count(found.begin(), found.end(), end) == 1);
    CHECK(std::count(split.begin(), split.end(), end) == 0);
    CHECK(tokenizer->decode(split) == text);
    CHECK(tokenizer->decode(found, /*skip_special_tokens=*/true).find("</s>") == std::string::npos);
  }
}

TEST_CASE("broken SentencePiece models say where") {
  const std::string whole = read_file(kKinds / "t5.model");
  CHECK_THAT(error_of(whole.substr(0, whole.size() - 5), "t.model"),
             Catch::StartsWith("t.model: the file: the bytes are damaged or cut off"));
  const std::string unknown = piece("<unk>", 2);
  CHECK_THAT(error_of(piece("a"), "t.model"),
             Catch::Contains("pieces: there is no piece for unknown text"));
  CHECK_THAT(error_of(unknown + piece("\xFF"), "t.model"),
             Catch::Contains("pieces[1]: the text is empty or not UTF-8"));
  CHECK_THAT(error_of(unknown + piece("a", 9), "t.model"),
             Catch::Contains("pieces[1]: the type 9 is not known"));
  // A trainer_spec with model_type = 3, one with a length of 4 GiB, and one with byte_fallback
  // although the model has no pieces for bytes.
  CHECK_THAT(error_of(unknown + field(2, "\x18\x03"), "t.model"),
             Catch::Contains("trainer_spec.model_type: 3 is not supported"));
  CHECK_THAT(error_of(unknown + "\x12\xFF\xFF\xFF\xFF\x0F", "t.model"), Catch::Contains("damaged"));
  CHECK_THAT(error_of(unknown + field(2, "\x98\x02\x01"), "t.model"),
             Catch::Contains("there is no piece <0x00>, although byte_fallback is set"));
  CHECK_THAT(error_of(unknown + field(3, field(2, "\x10\x10\x10\x10")), "t.model"),
             Catch::Contains("normalizer_spec.precompiled_charsmap: the character map has a trie"));
  CHECK_THAT(error_of(unknown + piece("a", 5) + field(2, "\x18\x02"), "t.model"),
             Catch::Contains("pieces[1]: a piece of the type UNUSED"));
  CHECK_THAT(error_of(unknown + piece("a") + piece("a") + field(2, "\x18\x02"), "t.model"),
             Catch::Contains("pieces[2]: \"a\" occurs twice"));
}

TEST_CASE("a token of absurd length is refused") {
  // "aaa..." in base64.
  std::string token;
  for (int i = 0; i < 1400; ++i) token += "YWFh";
  CHECK_THAT(error_of("YQ== 0\n" + token + " 1\n", "cl100k.tiktoken"),
             Catch::EndsWith("the token 1 has 4200 bytes, more than 4096"));
}

TEST_CASE("broken files of ranks say where") {
  const std::string ranks = read_file(kKinds / "cl100k.tiktoken");
  CHECK_THAT(error_of(ranks + "!!! 7\n", "cl100k.tiktoken"),
             Catch::Contains(": the line must be a token in base64"));
  CHECK_THAT(error_of(ranks, "mine.tiktoken"),
             Catch::Contains("no known encoding has this file's name or its 519 tokens"));
  CHECK_THAT(error_of("QQ== 4000000000\n", "cl100k.tiktoken"), Catch::Contains("too large"));
  const std::string tekken = read_file(kKinds / "tekken.json");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = tekken;
    text.replace(text.find(from), from.size(), to);
    return error_of(text, "tekken.json");
  };
  CHECK_THAT(changed("\"pattern\": \"", "\"pattern\": \"("), Catch::Contains("does not compile"));
  CHECK_THAT(changed("\"token_bytes\": \"", "\"token_bytes\": \"?"),
             Catch::Contains("vocab[0].token_bytes: the value is not base64"));
  CHECK_THAT(changed("\"default_num_special_tokens\": 8", "\"default_num_special_tokens\": 9999"),
             Catch::Contains("config: there are more special tokens than tokens"));
}

TEST_CASE("a character map that points outside itself replaces nothing") {
  // A trie of one unit (data/tokenizer/charsmap.h), whose offset and value are far beyond the map.
  const std::string bytes("\x04\0\0\0\xFF\xFF\xFF\x7F", 8);
  int found = 0;
  Charsmap(bytes).for_each_prefix("abc", [&](size_t, std::string_view) { ++found; });
  CHECK(found == 0);
  CHECK_THROWS_WITH(Charsmap("ab"), "the character map has no header");
  CHECK_THROWS_AS(Charsmap(std::string("\x08\0\0\0abcd", 8)), Error);
}

TEST_CASE("base64") {
  CHECK(base64_bytes("") == "");
  CHECK(base64_bytes("AA==") == std::string(1, '\0'));
  CHECK(base64_bytes("YWI=") == "ab");
  CHECK(base64_bytes("YWI") == "ab");
  CHECK(base64_bytes("YWJj") == "abc");
  CHECK_FALSE(base64_bytes("Y"));
  CHECK_FALSE(base64_bytes("Y*Jj"));
}
