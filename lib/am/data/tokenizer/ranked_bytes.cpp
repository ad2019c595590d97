#include "am/data/tokenizer/ranked_bytes.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/tokenizer/base64.h"
#include "am/data/tokenizer/bpe_model.h"
#include "am/data/tokenizer/json_field.h"
#include "am/data/tokenizer/pipeline.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

// A special token. Its id is the number of tokens in the file plus `offset`.
struct Special {
  std::string content;
  uint32_t offset;
};

struct Encoding {
  std::vector<std::string> names;  // a file whose name contains any of these has this encoding
  size_t tokens;                   // number of tokens in the published file
  std::string pattern;
  std::vector<Special> special;
  bool has_begin = false;  // whether add_special_tokens puts the first special token before a text
};

// The patterns that split text, as the publishers of the encodings write them.
constexpr const char* kR50k =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)";
constexpr const char* kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|)"
    R"(\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kKimi =
    R"([\p{Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Returns the 256 special tokens of Llama 3.1: eight with names of their own, the others reserved.
std::vector<Special> llama3_special() {
  std::vector<Special> special;
  const auto add = [&](std::string content) {
    special.push_back({std::move(content), static_cast<uint32_t>(special.size())});
  };
  int reserved = 0;
  const auto reserve = [&] { add(cat("<|reserved_special_token_", reserved++, "|>")); };
  add("<|begin_of_text|>");
  add("<|end_of_text|>");
  reserve();
  reserve();
  add("<|finetune_right_pad_id|>");
  reserve();
  for (const char* name : {"start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag"}) {
    add(cat("<|", name, "|>"));
  }
  while (special.size() < 256) reserve();
  return special;
}

const std::vector<Encoding>& encodings() {
  static const std::vector<Encoding> all = {
      {{"cl100k"},
       100256,
       kCl100k,
       {{"<|endoftext|>", 1},
        {"<|fim_prefix|>", 2},
        {"<|fim_middle|>", 3},
        {"<|fim_suffix|>", 4},
        {"<|endofprompt|>", 20}}},
      {{"o200k"}, 199998, kO200k, {{"<|endoftext|>", 1}, {"<|endofprompt|>", 20}}},
      {{"r50k", "gpt2"}, 50256, kR50k, {{"<|endoftext|>", 0}}},
      {{"llama3", "llama-3"}, 128000, kLlama3, llama3_special(), /*has_begin=*/true},
      {{"qwen"}, 151643, kQwen, {{"<|endoftext|>", 0}, {"<|im_start|>", 1}, {"<|im_end|>", 2}}},
      {{"kimi"}, 163584, kKimi, {{"[BOS]", 0}, {"[EOS]", 1}}}};
  return all;
}

// A token's bytes, and its id. Ids are in the order of the ranks.
using RankedToken = std::pair<std::string, uint32_t>;

Stages make_stages(const std::string& file, const std::vector<RankedToken>& tokens,
                   const std::string& pattern, std::vector<AddedToken> special) {
  Stages stages(TokenTable(file, tokens.size() + special.size()));
  BpeSpec spec;
  spec.bytes = true;
  spec.whole_pieces = true;
  spec.unknown_is_fatal = true;
  uint32_t next_id = 0;
  for (const auto& [token, id] : tokens) {
    stages.tokens.set(id, token);
    spec.vocabulary[token] = id;
    next_id = std::max(next_id, id + 1);
  }
  try {
    merge_by_rank(spec, tokens, next_id);
    stages.model = bpe_model(std::move(spec));
    stages.pre_tokenizers.push_back(split_stage(Regex(pattern, Regex::Dialect::kPerl),
                                                SplitBehavior::kIsolated, /*invert=*/false));
  } catch (const Error& error) {
    throw Error(ErrorKind::kFormat, cat(file, ": ", error.what()));
  }
  stages.decoders.push_back(utf8_decoder());
  stages.added = std::move(special);
  return stages;
}

std::optional<RankedToken> parse_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == line.npos || space == 0) return std::nullopt;
  const auto token = base64_bytes(line.substr(0, space));
  const std::string_view number = line.substr(space + 1);
  uint32_t rank = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (!token || token->empty() || read.ec != std::errc() ||
      read.ptr != number.data() + number.size() || rank == UINT32_MAX) {
    return std::nullopt;
  }
  return RankedToken(*token, rank);
}

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (ends_with(line, "\r")) line.remove_suffix(1);
  return line;
}

const Encoding* find_encoding(const std::string& file, size_t tokens) {
  const std::string name = lower(fs::path(file).filename().string());
  const auto has_name = [&](const Encoding& each) {
    return std::any_of(each.names.begin(), each.names.end(),
                       [&](const std::string& part) { return name.find(part) != name.npos; });
  };
  const auto& all = encodings();
  auto found = std::find_if(all.begin(), all.end(), has_name);
  if (found == all.end()) {
    found = std::find_if(all.begin(), all.end(),
                         [&](const Encoding& each) { return each.tokens == tokens; });
  }
  return found == all.end() ? nullptr : &*found;
}

// Pattern and special tokens in the tokenizer_config.json beside a tokenizer.
struct ConfigBeside {
  std::optional<std::string> pattern;
  std::vector<AddedToken> special;
};

ConfigBeside read_config_beside(const std::string& file) {
  ConfigBeside config;
  const fs::path path = fs::path(file).parent_path() / "tokenizer_config.json";
  if (!fs::exists(path)) return config;
  const std::string name = path.string();
  Diagnostics found;
  const auto json = parse_sorted_json(read_file(path), name, found);
  if (!json) throw Error(ErrorKind::kFormat, cat(name, ": ", found.items().front().message));
  const JsonField root(*json, "", name);
  if (const auto pattern = root.find("pat_str")) config.pattern = pattern->text();
  const auto tokens = root.find("added_tokens_decoder");
  if (!tokens) return config;
  for (const auto& [id, value] : tokens->object().items()) {
    const JsonField token = tokens->inside(value, id);
    AddedToken added;
    const auto read = std::from_chars(id.data(), id.data() + id.size(), added.id);
    if (read.ec != std::errc() || read.ptr != id.data() + id.size()) {
      token.fail("the key is not an id");
    }
    added.content = token.at("content").text();
    added.special = token.flag("special", true);
    added.strip_left = token.flag("lstrip", false);
    added.strip_right = token.flag("rstrip", false);
    if (!added.content.empty()) config.special.push_back(std::move(added));
  }
  return config;
}

// The first special tokens, by id, of a tekken.json that does not contain the key "special_tokens".
constexpr const char* kTekkenSpecial[] = {"<unk>",
                                          "<s>",
                                          "</s>",
                                          "[INST]",
                                          "[/INST]",
                                          "[AVAILABLE_TOOLS]",
                                          "[/AVAILABLE_TOOLS]",
                                          "[TOOL_RESULTS]",
                                          "[/TOOL_RESULTS]",
                                          "[TOOL_CALLS]",
                                          "[IMG]",
                                          "<pad>",
                                          "[IMG_BREAK]",
                                          "[IMG_END]",
                                          "[PREFIX]",
                                          "[MIDDLE]",
                                          "[SUFFIX]",
                                          "[SYSTEM_PROMPT]",
                                          "[/SYSTEM_PROMPT]",
                                          "[TOOL_CONTENT]"};

}  // namespace

bool is_rank_lines(std::string_view content) { return parse_line(next_line(content)).has_value(); }

std::unique_ptr<Tokenizer> parse_rank_lines(std::string_view content, const std::string& file) {
  std::vector<RankedToken> tokens;
  for (int64_t number = 1; !content.empty(); ++number) {
    const std::string_view line = next_line(content);
    if (line.empty()) continue;
    auto token = parse_line(line);
    if (!token) {
      throw Error(
          ErrorKind::kFormat,
          cat(file, ":", number,
              ": the line must be a token in base64, a space, and the number of the token"));
    }
    tokens.push_back(std::move(*token));
  }
  ConfigBeside config = read_config_beside(file);
  const Encoding* encoding = find_encoding(file, tokens.size());
  if (encoding == nullptr && !config.pattern) {
    throw Error(ErrorKind::kFormat,
                cat(file, ": no known encoding has this file's name or its ", tokens.size(),
                    " tokens, and the file does not contain the pattern that splits text"),
                "rename the file so that its name contains cl100k, o200k, r50k, llama3, qwen or "
                "kimi, or put a tokenizer_config.json with \"pat_str\" beside it");
  }
  std::vector<AddedToken> special = std::move(config.special);
  std::vector<uint32_t> before;
  if (special.empty() && encoding != nullptr) {
    for (const Special& each : encoding->special) {
      AddedToken added;
      added.id = static_cast<uint32_t>(tokens.size()) + each.offset;
      added.content = each.content;
      added.special = true;
      special.push_back(std::move(added));
    }
    if (encoding->has_begin) before.push_back(special.front().id);
  }
  Stages stages = make_stages(file, tokens, config.pattern ? *config.pattern : encoding->pattern,
                              std::move(special));
  stages.post.before = std::move(before);
  return make_pipeline(std::move(stages));
}

bool is_tekken(const SortedJson& json) {
  return json.is_object() && json.contains("config") && json.contains("vocab") &&
         !json.contains("model");
}

std::unique_ptr<Tokenizer> read_tekken(const SortedJson& json, const std::string& file) {
  const JsonField root(json, "", file);
  const JsonField config = root.at("config");
  const uint32_t special_count = config.at("default_num_special_tokens").id();
  const uint32_t size = config.at("default_vocab_size").id();
  if (special_count > size) config.fail("there are more special tokens than tokens");
  std::vector<RankedToken> tokens;
  for (const JsonField& entry : root.at("vocab").items()) {
    const uint32_t rank = entry.at("rank").id();
    if (rank >= size - special_count) continue;
    const JsonField text = entry.at("token_bytes");
    const auto bytes = base64_bytes(text.text());
    if (!bytes || bytes->empty()) text.fail("the value is not base64");
    tokens.emplace_back(*bytes, rank + special_count);
  }
  std::vector<std::string> names;
  const auto listed = root.find("special_tokens");
  if (listed) {
    for (const JsonField& token : listed->items()) names.push_back(token.at("token_str").text());
  } else {
    names.assign(std::begin(kTekkenSpecial), std::end(kTekkenSpecial));
  }
  // A limit for invalid files, because special tokens occupy memory even if the file does not list
  // them.
  constexpr uint32_t kMostSpecial = 1 << 16;
  if (special_count > kMostSpecial) config.fail("there are more than 65536 special tokens");
  std::vector<AddedToken> special;
  std::optional<uint32_t> begin;
  for (uint32_t id = 0; id < special_count; ++id) {
    AddedToken added;
    added.id = id;
    added.content = id < names.size() ? names[id] : cat("<SPECIAL_", id, ">");
    added.special = true;
    if (added.content == "<s>") begin = id;
    if (!added.content.empty()) special.push_back(std::move(added));
  }
  Stages stages = make_stages(file, tokens, config.at("pattern").text(), std::move(special));
  if (begin) stages.post.before.push_back(*begin);
  return make_pipeline(std::move(stages));
}

}  // namespace am::data
