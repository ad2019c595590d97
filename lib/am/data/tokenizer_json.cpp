#include "am/data/tokenizer_json.h"

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/json_integer.h"
#include "am/base/text.h"

namespace am::data {
namespace {

// Pattern of GPT-2, by which a ByteLevel pre-tokenizer with use_regex splits text.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Pattern that matches one punctuation mark of Unicode, or one symbol of ASCII.
constexpr const char* kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";

class Parser {
 public:
  explicit Parser(std::string file) : file_(std::move(file)) {}

  ByteBpeSpec parse(std::string_view text) {
    Diagnostics found;
    const auto parsed = parse_sorted_json(text, file_, found);
    if (!parsed) fail(found.items().front().message);
    const SortedJson& json = *parsed;
    try {
      if (!json.is_object() || !json.contains("model"))
        fail("the file has no \"model\", so it is not a tokenizer.json");
      read_model(json["model"]);
      if (json.contains("normalizer")) read_normalizer(json["normalizer"]);
      if (json.contains("pre_tokenizer")) read_pre_tokenizer(json["pre_tokenizer"]);
      if (json.contains("added_tokens")) read_added_tokens(json["added_tokens"]);
    } catch (const SortedJson::exception& error) {
      fail(json_reason(error));
    }
    if (!byte_level_) {
      fail(
          "the tokenizer is a BPE without the ByteLevel pre-tokenizer (SentencePiece's kind, as in "
          "Llama 2)");
    }
    return std::move(spec_);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(ErrorKind::kFormat, cat(file_, ": ", reason),
                "automesh supports byte-level BPE, as in GPT-2, Llama 3, Qwen and SmolLM; with "
                "another tokenizer, write the ids to a file by its own library (numpy.array(ids, "
                "'uint32').tofile('tokens.bin')), and set data.kind = \"tokens\"");
  }

  static std::string type_of(const SortedJson& object) {
    return object.value("type", std::string("(none)"));
  }

  // Whether the key exists with a value other than null or "".
  static bool given(const SortedJson& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return false;
    return !(found->is_string() && found->get_ref<const std::string&>().empty());
  }

  uint32_t id_in(const SortedJson& value) const {
    const int64_t id = integer_of(value);
    if (id < 0 || id > UINT32_MAX) fail(cat("the id ", id, " is out of range"));
    return static_cast<uint32_t>(id);
  }

  void read_model(const SortedJson& model) {
    if (type_of(model) != "BPE") {
      fail(cat("the tokenizer has the type ", type_of(model), ", not BPE"));
    }
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      if (given(model, key)) fail(cat("the model's \"", key, "\" is not supported"));
    }
    spec_.ignore_merges = model.value("ignore_merges", false);
    if (!model.at("vocab").is_object()) fail("the vocabulary is not an object");
    for (const auto& [token, id] : model.at("vocab").items()) {
      spec_.vocab.emplace(token, id_in(id));
    }
    for (const SortedJson& merge : model.at("merges")) read_merge(merge);
  }

  // `merge` is ["a", "b"], or "a b" in files of older versions.
  void read_merge(const SortedJson& merge) {
    if (merge.is_array() && merge.size() == 2) {
      spec_.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      return;
    }
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space == std::string::npos) fail(cat("the merge \"", text, "\" is not a pair"));
    spec_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }

  void read_normalizer(const SortedJson& normalizer) {
    if (normalizer.is_null()) return;
    const std::string type = type_of(normalizer);
    if (type == "NFC") {
      spec_.normalize_nfc = true;
    } else if (type == "Sequence") {
      for (const SortedJson& step : normalizer.at("normalizers")) read_normalizer(step);
    } else {
      fail(cat("the normalizer ", type, " is not supported, only NFC"));
    }
  }

  void read_pre_tokenizer(const SortedJson& step) {
    if (step.is_null()) return;
    if (byte_level_) fail("a pre-tokenizer after ByteLevel is not supported");
    const std::string type = type_of(step);
    if (type == "Sequence") {
      for (const SortedJson& part : step.at("pretokenizers")) read_pre_tokenizer(part);
    } else if (type == "ByteLevel") {
      read_byte_level(step);
    } else if (type == "Digits") {
      add_split(step.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "Punctuation" && step.value("behavior", "Isolated") == "Isolated") {
      add_split(kPunctuation);
    } else if (type == "Split") {
      read_split(step);
    } else {
      fail(cat("the pre-tokenizer ", type, " is not supported"));
    }
  }

  void read_byte_level(const SortedJson& step) {
    byte_level_ = true;
    spec_.add_prefix_space = step.value("add_prefix_space", true);
    if (spec_.add_prefix_space && !spec_.splits.empty()) {
      fail("ByteLevel's add_prefix_space after another pre-tokenizer is not supported");
    }
    if (step.value("use_regex", true)) add_split(kGpt2Pattern);
  }

  void read_split(const SortedJson& step) {
    const auto pattern = step.at("pattern").find("Regex");
    if (pattern == step.at("pattern").end()) fail("a Split by a plain string is not supported");
    add_split(pattern->get<std::string>());
    const auto behavior = step.at("behavior").get<std::string>();
    if (behavior == "Isolated") return;
    if (behavior != "Removed") fail(cat("Split's behavior ", behavior, " is not supported"));
    const bool keep_matches = step.value("invert", false);
    spec_.splits.back().keep_matches = keep_matches;
    spec_.splits.back().keep_rest = !keep_matches;
  }

  void add_split(const std::string& pattern) {
    try {
      spec_.splits.push_back({Regex(pattern)});
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  void read_added_tokens(const SortedJson& tokens) {
    for (const SortedJson& token : tokens) {
      AddedToken added;
      added.id = id_in(token.at("id"));
      added.content = token.at("content").get<std::string>();
      added.normalized = token.value("normalized", false);
      added.strip_left = token.value("lstrip", false);
      added.strip_right = token.value("rstrip", false);
      if (token.value("single_word", false)) {
        fail(cat("the added token \"", added.content,
                 "\" has single_word = true, which is not supported"));
      }
      if (!added.content.empty()) spec_.added.push_back(std::move(added));
    }
  }

  std::string file_;
  ByteBpeSpec spec_;
  bool byte_level_ = false;
};

}  // namespace

ByteBpeSpec parse_tokenizer_json(std::string_view text, const std::string& file) {
  return Parser(file).parse(text);
}

}  // namespace am::data
