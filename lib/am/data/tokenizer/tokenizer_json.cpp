#include "am/data/tokenizer/tokenizer_json.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/tokenizer/base64.h"
#include "am/data/tokenizer/bpe_model.h"
#include "am/data/tokenizer/json_field.h"
#include "am/data/tokenizer/pipeline.h"
#include "am/data/tokenizer/unigram_model.h"
#include "am/data/tokenizer/word_model.h"

namespace am::data {
namespace {

// GPT-2's pattern. A ByteLevel pre-tokenizer with use_regex splits text by it.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Pattern that matches one punctuation mark of Unicode, or one symbol of ASCII.
constexpr const char* kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";
// The characters that the pre-tokenizer Whitespace regards as parts of words, written for use
// between the brackets of a character class.
constexpr const char* kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";

constexpr const char* kHint =
    "write the ids to a file with the tokenizer's own library "
    "(numpy.array(ids, 'uint32').tofile('tokens.bin')), and set data.kind = \"tokens\" and "
    "data.token_dtype = \"uint32\"";

class PartsReader {
 public:
  PartsReader(const SortedJson& json, const std::string& file)
      : root_(json, "", file), stages_(TokenTable(file, count_tokens())) {}

  Stages read() {
    if (const auto normalizer = root_.find("normalizer")) {
      read_normalizer(*normalizer, stages_.normalizers);
    }
    if (const auto pre_tokenizer = root_.find("pre_tokenizer")) {
      read_pre_tokenizer(*pre_tokenizer);
    }
    read_model(root_.at("model"));
    read_added_tokens();
    if (const auto post = root_.find("post_processor")) read_post_processor(*post);
    if (const auto decoder = root_.find("decoder")) {
      read_decoder(*decoder);
    } else {
      stages_.decoders.push_back(joining_decoder());
    }
    return std::move(stages_);
  }

 private:
  // Returns the number of entries in the vocabulary and in added_tokens together. An added token
  // that the vocabulary also contains counts twice. Throws Error(kFormat) if there is no model.
  size_t count_tokens() const {
    if (!root_.value().is_object() || !root_.find("model")) {
      root_.fail("the file has no \"model\", so it is not a tokenizer.json");
    }
    const SortedJson& vocabulary = root_.at("model").at("vocab").value();
    const auto added = root_.find("added_tokens");
    return vocabulary.size() + (added ? added->value().size() : 0);
  }

  [[noreturn]] static void refuse(const JsonField& part, const std::string& what) {
    try {
      part.fail(cat(what, " is not supported"));
    } catch (const Error& error) {
      throw Error(ErrorKind::kFormat, error.what(), kHint);
    }
  }

  // ---- normalizers -------------------------------------------------------------------------------

  void read_normalizer(const JsonField& part, std::vector<NormalizerStage>& out) {
    const std::string& type = part.type();
    if (type == "Sequence") {
      for (const JsonField& each : part.at("normalizers").items()) read_normalizer(each, out);
    } else if (type == "Prepend") {
      out.push_back(prepend_stage(part.at("prepend").text()));
    } else if (type == "Replace") {
      out.push_back(replace_stage(pattern(part), part.at("content").text()));
    } else if (type == "NFC") {
      out.push_back(normal_form_stage(NormalForm::kC));
    } else if (type == "NFD") {
      out.push_back(normal_form_stage(NormalForm::kD));
    } else if (type == "NFKC") {
      out.push_back(normal_form_stage(NormalForm::kKC));
    } else if (type == "NFKD") {
      out.push_back(normal_form_stage(NormalForm::kKD));
    } else if (type == "Lowercase") {
      out.push_back(lower_case_stage());
    } else if (type == "Strip") {
      out.push_back(strip_stage(part.at("strip_left").flag(), part.at("strip_right").flag()));
    } else if (type == "StripAccents") {
      out.push_back(strip_accents_stage());
    } else if (type == "Nmt") {
      out.push_back(nmt_stage());
    } else if (type == "Precompiled") {
      read_charsmap(part.at("precompiled_charsmap"), out);
    } else if (type == "ByteLevel") {
      out.push_back(letters_stage());
    } else if (type == "BertNormalizer") {
      const bool lowercase = part.flag("lowercase", true);
      out.push_back(bert_stage({.clean_text = part.flag("clean_text", true),
                                .handle_chinese_chars = part.flag("handle_chinese_chars", true),
                                .strip_accents = part.flag("strip_accents", lowercase),
                                .lowercase = lowercase}));
    } else {
      refuse(part, cat("the normalizer ", type));
    }
  }

  static void read_charsmap(const JsonField& map, std::vector<NormalizerStage>& out) {
    const auto bytes = base64_bytes(map.text());
    if (!bytes) map.fail("the value is not base64");
    if (bytes->empty()) return;
    try {
      out.push_back(charsmap_stage(Charsmap(*bytes)));
    } catch (const Error& error) {
      map.fail(error.what());
    }
  }

  // Returns the pattern of a Split or a Replace: {"String": "a"} or {"Regex": "a+"}.
  static Pattern pattern(const JsonField& part) {
    const JsonField pattern = part.at("pattern");
    if (const auto text = pattern.find("String")) {
      if (text->text().empty()) text->fail("the pattern is empty");
      return text->text();
    }
    const JsonField regex = pattern.at("Regex");
    return compiled(regex, regex.text());
  }

  static Regex compiled(const JsonField& part, const std::string& pattern) {
    try {
      return Regex(pattern);
    } catch (const Error& error) {
      part.fail(error.what());
    }
  }

  // ---- pre-tokenizers ----------------------------------------------------------------------------

  // Adds the stages of a pre-tokenizer. `last`: whether no other pre-tokenizer follows. A ByteLevel
  // ends with letters_stage(), which turns bytes into GPT-2's letters. If the ByteLevel is the last
  // pre-tokenizer, read_model() adds that stage, except for a BPE whose symbols are bytes.
  void read_pre_tokenizer(const JsonField& part, bool last = true) {
    const std::string& type = part.type();
    PreTokenizers& out = stages_.pre_tokenizers;
    const auto split = [&](const std::string& pattern, SplitBehavior behavior) {
      out.push_back(split_stage(compiled(part, pattern), behavior, /*invert=*/false));
    };
    if (type == "Sequence") {
      const std::vector<JsonField> parts = part.at("pretokenizers").items();
      for (size_t i = 0; i < parts.size(); ++i) {
        read_pre_tokenizer(parts[i], last && i + 1 == parts.size());
      }
    } else if (type == "ByteLevel") {
      if (part.flag("add_prefix_space", true)) out.push_back(prefix_space_stage());
      if (part.flag("use_regex", true)) split(kGpt2Pattern, SplitBehavior::kIsolated);
      // Each ByteLevel may double a text's size; a file with many of them could fill the memory.
      if (byte_level_) refuse(part, "a second ByteLevel");
      byte_level_ = true;
      byte_level_last_ = last;
      if (!last) out.push_back(normalizing_stage(letters_stage()));
    } else if (type == "Metaspace") {
      read_metaspace(part);
    } else if (type == "Split") {
      out.push_back(split_stage(pattern(part), behavior(part), part.flag("invert", false)));
    } else if (type == "Digits") {
      split(R"(\p{N})", part.flag("individual_digits", false) ? SplitBehavior::kIsolated
                                                              : SplitBehavior::kContiguous);
    } else if (type == "Punctuation") {
      split(kPunctuation, part.find("behavior") ? behavior(part) : SplitBehavior::kIsolated);
    } else if (type == "Whitespace") {
      out.push_back(split_stage(compiled(part, cat("[", kWord, "]+|[^", kWord, "\\s]+")),
                                SplitBehavior::kRemoved, /*invert=*/true));
    } else if (type == "WhitespaceSplit") {
      split(R"(\s)", SplitBehavior::kRemoved);
    } else if (type == "BertPreTokenizer") {
      split(R"(\s)", SplitBehavior::kRemoved);
      split(kPunctuation, SplitBehavior::kIsolated);
    } else if (type == "CharDelimiterSplit") {
      out.push_back(
          split_stage(part.at("delimiter").text(), SplitBehavior::kRemoved, /*invert=*/false));
    } else if (type == "FixedLength") {
      const int64_t length = part.count("length", 5);
      if (length < 1 || length > UINT16_MAX) part.fail("the length is not from 1 to 65535");
      split(cat("(?s).{1,", length, "}"), SplitBehavior::kIsolated);
    } else {
      refuse(part, cat("the pre-tokenizer ", type));
    }
  }

  void read_metaspace(const JsonField& part) {
    PreTokenizers& out = stages_.pre_tokenizers;
    const std::string& replacement = replacement_of(part);
    const PrependScheme scheme = prepend_scheme(part);
    // Earlier stages may change the text. Only the traced origins of a piece then show whether the
    // piece is at the start of the original text.
    if (scheme == PrependScheme::kFirst) {
      stages_.always_traced = !stages_.normalizers.empty() || !out.empty();
    }
    out.push_back(metaspace_stage(replacement, scheme));
    if (part.flag("split", true)) {
      out.push_back(split_stage(replacement, SplitBehavior::kMergedWithNext, /*invert=*/false));
    }
  }

  static const std::string& replacement_of(const JsonField& part) {
    const JsonField field = part.at("replacement");
    if (utf8_length(field.text()) != field.text().size() || field.text().empty()) {
      field.fail("the value is not one character");
    }
    return field.text();
  }

  // Older versions of `tokenizers` wrote add_prefix_space instead of prepend_scheme.
  static PrependScheme prepend_scheme(const JsonField& part) {
    const std::string scheme = part.text("prepend_scheme", "always");
    if (!part.flag("add_prefix_space", true) || scheme == "never") return PrependScheme::kNever;
    if (scheme == "first") return PrependScheme::kFirst;
    if (scheme != "always") {
      part.at("prepend_scheme").fail(cat("\"", scheme, "\" is not always, first or never"));
    }
    return PrependScheme::kAlways;
  }

  static SplitBehavior behavior(const JsonField& part) {
    static constexpr std::pair<const char*, SplitBehavior> kNames[] = {
        {"Removed", SplitBehavior::kRemoved},
        {"Isolated", SplitBehavior::kIsolated},
        {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
        {"MergedWithNext", SplitBehavior::kMergedWithNext},
        {"Contiguous", SplitBehavior::kContiguous}};
    const JsonField field = part.at("behavior");
    for (const auto& [name, behavior] : kNames) {
      if (field.text() == name) return behavior;
    }
    field.fail(cat("\"", field.text(),
                   "\" is not Removed, Isolated, MergedWithPrevious, MergedWithNext or "
                   "Contiguous"));
  }

  // ---- models ------------------------------------------------------------------------------------

  void read_model(const JsonField& model) {
    // Older versions of `tokenizers` wrote no type.
    const std::string type = model.text("type", model.find("merges")   ? "BPE"
                                                : model.find("unk_id") ? "Unigram"
                                                                       : "");
    if (type == "BPE") {
      read_bpe(model);
    } else if (type == "Unigram") {
      read_unigram(model);
    } else if (type == "WordPiece" || type == "WordLevel") {
      read_words(model, type == "WordLevel");
    } else {
      refuse(model, type.empty() ? "a model without a type" : cat("the model type ", type));
    }
    // read_bpe() has reset byte_level_last_ if the model's symbols are bytes.
    if (byte_level_last_) stages_.pre_tokenizers.push_back(normalizing_stage(letters_stage()));
  }

  Vocabulary read_vocabulary(const JsonField& model) {
    const JsonField field = model.at("vocab");
    if (!field.value().is_object()) field.fail("the vocabulary is not an object");
    Vocabulary vocabulary;
    vocabulary.reserve(field.value().size());
    for (const auto& [token, id] : field.value().items()) {
      // For speed, builds a JsonField only for an invalid id; the field's id() throws.
      const bool fine = id.is_number_unsigned() && id.get<uint64_t>() < UINT32_MAX;
      const uint32_t number = fine ? id.get<uint32_t>() : field.inside(id, token).id();
      vocabulary.emplace(token, number);
      stages_.tokens.set(number, token);
    }
    return vocabulary;
  }

  // Returns the id of the token for unknown text; nullopt if there is none.
  static std::optional<uint32_t> unknown_id(const JsonField& model, const Vocabulary& vocabulary) {
    const std::string token = model.text("unk_token", "");
    return token.empty() ? std::nullopt : find_id(vocabulary, token);
  }

  void read_bpe(const JsonField& model) {
    if (const auto dropout = model.find("dropout"); dropout && dropout->number() != 0.0) {
      refuse(*dropout, "a dropout above 0");
    }
    BpeSpec spec;
    spec.vocabulary = read_vocabulary(model);
    spec.subword_prefix = model.text("continuing_subword_prefix", "");
    spec.word_suffix = model.text("end_of_word_suffix", "");
    spec.whole_pieces = model.flag("ignore_merges", false);
    spec.fuse_unknown = model.flag("fuse_unk", false);
    spec.unknown.id = unknown_id(model, spec.vocabulary);
    spec.unknown_is_fatal = !model.text("unk_token", "").empty() && !spec.unknown.id;
    const bool plain = spec.subword_prefix.empty() && spec.word_suffix.empty();
    spec.words_begin_with_space = plain;
    for (const JsonField& merge : model.at("merges").items()) read_merge(merge, spec);
    if (byte_level_last_ && plain) {
      byte_level_last_ = false;
      use_bytes(spec);
    } else if (model.flag("byte_fallback", false)) {
      spec.unknown.of_byte = byte_ids(spec.vocabulary);
    }
    stages_.model = bpe_model(std::move(spec));
  }

  // Adds the rule `merge` to the spec. A rule is written as ["a", "b"]; older versions of
  // `tokenizers` wrote "a b".
  static void read_merge(const JsonField& merge, BpeSpec& spec) {
    std::string left;
    std::string right;
    if (merge.value().is_array()) {
      const std::vector<JsonField> parts = merge.items();
      if (parts.size() != 2) merge.fail("the merge is not a pair");
      left = parts[0].text();
      right = parts[1].text();
    } else {
      const size_t space = merge.text().find(' ');
      if (space == std::string::npos) {
        merge.fail(cat("the merge \"", merge.text(), "\" is not a pair"));
      }
      left = merge.text().substr(0, space);
      right = merge.text().substr(space + 1);
    }
    if (!starts_with(right, spec.subword_prefix)) {
      merge.fail(cat("\"", right, "\" does not begin with the continuing_subword_prefix"));
    }
    const std::string whole = left + right.substr(spec.subword_prefix.size());
    const auto left_id = find_id(spec.vocabulary, left);
    const auto right_id = find_id(spec.vocabulary, right);
    const auto merged = find_id(spec.vocabulary, whole);
    if (!left_id || !right_id || !merged) {
      merge.fail(cat("\"", left, "\", \"", right, "\" or their merge is not in the vocabulary"));
    }
    if (has_inner_space(whole)) spec.words_begin_with_space = false;
    spec.merges.add(*left_id, *right_id, *merged);
  }

  // Converts a vocabulary from GPT-2's letters to bytes, so that text need not be converted to
  // letters.
  static void use_bytes(BpeSpec& spec) {
    Vocabulary bytes;
    bytes.reserve(spec.vocabulary.size());
    std::string token;
    for (const auto& [letters, id] : spec.vocabulary) {
      if (bytes_of_letters(letters, token)) bytes.emplace(token, id);
    }
    spec.vocabulary = std::move(bytes);
    spec.bytes = true;
    spec.words_begin_with_space = false;
  }

  void read_unigram(const JsonField& model) {
    UnigramSpec spec;
    Vocabulary ids;
    for (const JsonField& entry : model.at("vocab").items()) {
      const std::vector<JsonField> pair = entry.items();
      if (pair.size() != 2) entry.fail("the token is not a pair of text and score");
      const auto id = static_cast<uint32_t>(spec.tokens.size());
      const double score = pair[1].number();
      spec.tokens.push_back({pair[0].text(), id, score});
      spec.min_score = id == 0 ? score : std::min(spec.min_score, score);
      stages_.tokens.set(id, pair[0].text());
      ids[pair[0].text()] = id;
    }
    if (const auto unknown = model.find("unk_id")) {
      spec.unknown.id = unknown->id();
      if (*spec.unknown.id >= spec.tokens.size()) unknown->fail("the id is not in the vocabulary");
    }
    if (model.flag("byte_fallback", false)) spec.unknown.of_byte = byte_ids(ids);
    stages_.model = unigram_model(std::move(spec));
  }

  void read_words(const JsonField& model, bool whole_pieces) {
    WordSpec spec;
    spec.vocabulary = read_vocabulary(model);
    spec.unknown = unknown_id(model, spec.vocabulary);
    spec.whole_pieces = whole_pieces;
    spec.subword_prefix = model.text("continuing_subword_prefix", "##");
    spec.longest_word = static_cast<size_t>(model.count("max_input_chars_per_word", 100));
    stages_.model = word_model(std::move(spec));
  }

  // ---- added tokens, post-processors, decoders ---------------------------------------------------

  void read_added_tokens() {
    const auto tokens = root_.find("added_tokens");
    if (!tokens) return;
    for (const JsonField& token : tokens->items()) {
      AddedToken added;
      added.id = token.at("id").id();
      added.content = token.at("content").text();
      added.special = token.flag("special", false);
      added.normalized = token.flag("normalized", false);
      added.strip_left = token.flag("lstrip", false);
      added.strip_right = token.flag("rstrip", false);
      added.single_word = token.flag("single_word", false);
      if (!added.content.empty()) stages_.added.push_back(std::move(added));
    }
  }

  void read_post_processor(const JsonField& part) {
    const std::string& type = part.type();
    PostProcessor& post = stages_.post;
    if (type == "Sequence") {
      for (const JsonField& each : part.at("processors").items()) read_post_processor(each);
    } else if (type == "ByteLevel") {
      if (part.flag("trim_offsets", true)) {
        post.trims.push_back(part.flag("add_prefix_space", true));
      }
    } else if (type == "TemplateProcessing") {
      read_template(part);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      if (type == "RobertaProcessing" && part.flag("trim_offsets", true)) {
        post.trims.push_back(part.flag("add_prefix_space", true));
      }
      post.before.insert(post.before.begin(), named_id(part.at("cls")));
      post.after.push_back(named_id(part.at("sep")));
    } else {
      refuse(part, cat("the post-processor ", type));
    }
  }

  // Returns the id in a pair of a token and its id, for example ["<s>", 1].
  static uint32_t named_id(const JsonField& pair) {
    const std::vector<JsonField> parts = pair.items();
    if (parts.size() != 2) pair.fail("the value is not a pair of token and id");
    return parts[1].id();
  }

  void read_template(const JsonField& part) {
    std::vector<uint32_t> before;
    std::vector<uint32_t> after;
    bool text_seen = false;
    const JsonField single = part.at("single");
    for (const JsonField& piece : single.items()) {
      if (const auto special = piece.find("SpecialToken")) {
        const JsonField name = special->at("id");
        const JsonField token = part.at("special_tokens").at(name.text().c_str());
        for (const JsonField& id : token.at("ids").items()) {
          (text_seen ? after : before).push_back(id.id());
        }
      } else {
        const JsonField id = piece.at("Sequence").at("id");
        if (id.text() != "A" || text_seen)
          refuse(single, "a template with the text more than once");
        text_seen = true;
      }
    }
    if (!text_seen) refuse(single, "a template without the text");
    PostProcessor& post = stages_.post;
    post.before.insert(post.before.begin(), before.begin(), before.end());
    post.after.insert(post.after.end(), after.begin(), after.end());
  }

  void read_decoder(const JsonField& part) {
    const std::string& type = part.type();
    std::vector<DecoderStage>& out = stages_.decoders;
    if (type == "Sequence") {
      for (const JsonField& each : part.at("decoders").items()) read_decoder(each);
    } else if (type == "ByteLevel") {
      out.push_back(byte_level_decoder());
      out.push_back(utf8_decoder());
    } else if (type == "Replace") {
      out.push_back(replace_decoder(pattern(part), part.at("content").text()));
    } else if (type == "ByteFallback") {
      out.push_back(byte_fallback_decoder());
    } else if (type == "Fuse") {
      out.push_back(fuse_decoder());
    } else if (type == "Strip") {
      const JsonField content = part.at("content");
      if (content.text().empty()) content.fail("the value is not one character");
      out.push_back(strip_decoder(content.text(), static_cast<size_t>(part.count("start", 0)),
                                  static_cast<size_t>(part.count("stop", 0))));
    } else if (type == "Metaspace") {
      out.push_back(
          metaspace_decoder(replacement_of(part), prepend_scheme(part) != PrependScheme::kNever));
    } else if (type == "WordPiece") {
      out.push_back(word_piece_decoder(part.text("prefix", "##"), part.flag("cleanup", true)));
    } else if (type == "BPEDecoder") {
      out.push_back(suffix_decoder(part.text("suffix", "</w>")));
    } else {
      refuse(part, cat("the decoder ", type));
    }
  }

  JsonField root_;
  Stages stages_;
  bool byte_level_ = false;       // whether there is a pre-tokenizer ByteLevel
  bool byte_level_last_ = false;  // whether read_model() must add ByteLevel's letters_stage()
};

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(const SortedJson& json, const std::string& file) {
  return make_pipeline(PartsReader(json, file).read());
}

}  // namespace am::data
