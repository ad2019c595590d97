#include "am/data/tokenizer/sentencepiece_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/data/tokenizer/bpe_model.h"
#include "am/data/tokenizer/json_field.h"
#include "am/data/tokenizer/pipeline.h"
#include "am/data/tokenizer/unigram_model.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

// A field of a protocol buffers message: a number (wire types 0, 1 and 5) or bytes (type 2).
struct ProtoField {
  uint64_t field = 0;
  uint64_t number = 0;
  std::string_view bytes;
  bool is_bytes = false;
};

// Reads the fields of a protocol buffers message.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

  // Reads the next field. Returns false at the end of the message or at invalid bytes; ok() then
  // distinguishes the two cases.
  bool next(ProtoField& out) {
    if (rest_.empty() || !ok_) return false;
    const uint64_t tag = varint();
    out = {tag >> 3, 0, {}, false};
    switch (tag & 7) {
      case 0:
        out.number = varint();
        break;
      case 1:
        out.number = fixed(8);
        break;
      case 2: {
        const uint64_t length = varint();
        if (length > rest_.size()) ok_ = false;
        out.is_bytes = true;
        if (ok_) out.bytes = rest_.substr(0, length);
        if (ok_) rest_.remove_prefix(length);
        break;
      }
      case 5:
        out.number = fixed(4);
        break;
      default:
        ok_ = false;
    }
    return ok_ && out.field != 0;
  }
  // Whether all bytes have been read as valid fields.
  bool ok() const { return ok_ && rest_.empty(); }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  uint64_t fixed(size_t size) {
    uint64_t value = 0;
    if (rest_.size() < size) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

enum class PieceType : uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct ModelPiece {
  std::string text;
  float score = 0.0F;
  PieceType type = PieceType::kNormal;
};

// The contents of a ModelProto that automesh uses.
struct Model {
  std::vector<ModelPiece> pieces;
  uint64_t type = 1;  // 1: Unigram; 2: BPE; 3: words; 4: characters
  bool byte_fallback = false;
  std::string begin = "<s>";
  std::string end = "</s>";
  std::string unknown_surface = " \xE2\x81\x87 ";
  std::string charsmap;
  SentencePieceSpaces spaces;
};

class ModelReader {
 public:
  explicit ModelReader(const std::string& file) : file_(file) {}

  Stages read(std::string_view content) {
    parse(content);
    Stages stages(TokenTable(file_, model_.pieces.size()));
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const ModelPiece& piece = model_.pieces[i];
      const auto id = static_cast<uint32_t>(i);
      stages.tokens.set(id, piece.text);
      if (piece.type == PieceType::kControl) {
        AddedToken added;
        added.id = id;
        added.content = piece.text;
        added.special = true;
        stages.added.push_back(std::move(added));
      } else if (piece.type == PieceType::kUserDefined) {
        fixed_->add(piece.text, id);
      } else if (piece.type == PieceType::kUnknown) {
        unknown_.id = id;
      }
    }
    if (!unknown_.id) fail("pieces", "there is no piece for unknown text");
    if (model_.byte_fallback) read_bytes();
    stages.normalizers.push_back(sentencepiece_stage(charsmap(), fixed_, model_.spaces));
    stages.model = model_.type == 1 ? unigram() : bpe();
    stages.decoders.push_back(sentencepiece_decoder({.unknown = model_.pieces[*unknown_.id].text,
                                                     .unknown_surface = model_.unknown_surface,
                                                     .byte_fallback = model_.byte_fallback,
                                                     .spaces = model_.spaces}));
    add_ends(stages);
    return stages;
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& reason) const {
    throw Error(ErrorKind::kFormat, cat(file_, ": ", field, ": ", reason));
  }

  // ---- the file ----------------------------------------------------------------------------------

  void parse(std::string_view content) {
    ProtoReader reader(content);
    for (ProtoField field; reader.next(field);) {
      if (!field.is_bytes) continue;
      if (field.field == 1) parse_piece(field.bytes);
      if (field.field == 2) parse_trainer(field.bytes);
      if (field.field == 3) parse_normalizer(field.bytes);
      if (field.field == 5) parse_denormalizer(field.bytes);
    }
    check(reader, "the file");
    if (model_.pieces.empty()) fail("pieces", "there are none");
    if (model_.type != 1 && model_.type != 2) {
      fail("trainer_spec.model_type",
           cat(model_.type, " is not supported, only 1 (Unigram) and 2 (BPE)"));
    }
  }

  void check(const ProtoReader& reader, const std::string& what) const {
    if (!reader.ok()) fail(what, "the bytes are damaged or cut off");
  }

  void parse_piece(std::string_view bytes) {
    ModelPiece piece;
    ProtoReader reader(bytes);
    const std::string name = cat("pieces[", model_.pieces.size(), "]");
    for (ProtoField field; reader.next(field);) {
      if (field.field == 1 && field.is_bytes) piece.text = field.bytes;
      if (field.field == 2 && !field.is_bytes) {
        const auto bits = static_cast<uint32_t>(field.number);
        std::memcpy(&piece.score, &bits, sizeof(bits));
      }
      if (field.field == 3 && !field.is_bytes) piece.type = static_cast<PieceType>(field.number);
    }
    check(reader, name);
    if (piece.text.empty() || !is_utf8(piece.text)) fail(name, "the text is empty or not UTF-8");
    if (!std::isfinite(piece.score)) fail(name, "the score is not finite");
    if (piece.type < PieceType::kNormal || piece.type > PieceType::kByte) {
      fail(name, cat("the type ", static_cast<uint64_t>(piece.type), " is not known"));
    }
    model_.pieces.push_back(std::move(piece));
  }

  void parse_trainer(std::string_view bytes) {
    ProtoReader reader(bytes);
    for (ProtoField field; reader.next(field);) {
      if (field.field == 3) model_.type = field.number;
      if (field.field == 24) model_.spaces.treat_whitespace_as_suffix = field.number != 0;
      if (field.field == 35) model_.byte_fallback = field.number != 0;
      if (!field.is_bytes) continue;
      if (field.field == 44) model_.unknown_surface = field.bytes;
      if (field.field == 46) model_.begin = field.bytes;
      if (field.field == 47) model_.end = field.bytes;
    }
    check(reader, "trainer_spec");
  }

  void parse_normalizer(std::string_view bytes) {
    ProtoReader reader(bytes);
    for (ProtoField field; reader.next(field);) {
      if (field.field == 2 && field.is_bytes) model_.charsmap = field.bytes;
      if (field.field == 3) model_.spaces.add_dummy_prefix = field.number != 0;
      if (field.field == 4) model_.spaces.remove_extra_whitespaces = field.number != 0;
      if (field.field == 5) model_.spaces.escape_whitespaces = field.number != 0;
    }
    check(reader, "normalizer_spec");
  }

  void parse_denormalizer(std::string_view bytes) const {
    ProtoReader reader(bytes);
    for (ProtoField field; reader.next(field);) {
      if (field.field == 2 && !field.bytes.empty()) {
        fail("denormalizer_spec.precompiled_charsmap", "the field is not supported");
      }
    }
    check(reader, "denormalizer_spec");
  }

  // ---- the stages --------------------------------------------------------------------------------

  void read_bytes() {
    Vocabulary ids;
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      if (model_.pieces[i].type == PieceType::kByte) {
        ids[model_.pieces[i].text] = static_cast<uint32_t>(i);
      }
    }
    unknown_.of_byte = byte_ids(ids);
    for (size_t byte = 0; byte < unknown_.of_byte.size(); ++byte) {
      if (!unknown_.of_byte[byte]) {
        fail("pieces", cat("there is no piece ", byte_token(static_cast<unsigned char>(byte)),
                           ", although byte_fallback is set"));
      }
    }
  }

  std::shared_ptr<const Charsmap> charsmap() const {
    if (model_.charsmap.empty()) return nullptr;
    try {
      return std::make_shared<const Charsmap>(model_.charsmap);
    } catch (const Error& error) {
      fail("normalizer_spec.precompiled_charsmap", error.what());
    }
  }

  std::unique_ptr<const TokenModel> unigram() const {
    UnigramSpec spec;
    spec.kind = UnigramSpec::Kind::kSentencePiece;
    spec.unknown = unknown_;
    float lowest = std::numeric_limits<float>::max();
    float highest = std::numeric_limits<float>::lowest();
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const ModelPiece& piece = model_.pieces[i];
      if (piece.type == PieceType::kNormal) {
        lowest = std::min(lowest, piece.score);
        highest = std::max(highest, piece.score);
      }
      if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined) {
        spec.tokens.push_back({piece.text, static_cast<uint32_t>(i), piece.score,
                               piece.type == PieceType::kUserDefined});
      }
    }
    spec.min_score = lowest;
    spec.max_score = highest;
    return unigram_model(std::move(spec));
  }

  std::unique_ptr<const TokenModel> bpe() const {
    BpeSpec spec;
    spec.unknown = unknown_;
    spec.fuse_unknown = true;
    spec.unknown_is_fatal = true;
    spec.fixed = fixed_;
    std::vector<const ModelPiece*> merged;
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const ModelPiece& piece = model_.pieces[i];
      if (piece.type == PieceType::kUnused) {
        fail(cat("pieces[", i, "]"), "a piece of the type UNUSED in a BPE is not supported");
      }
      if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) continue;
      if (!spec.vocabulary.emplace(piece.text, static_cast<uint32_t>(i)).second) {
        fail(cat("pieces[", i, "]"), cat("\"", piece.text, "\" occurs twice"));
      }
      merged.push_back(&piece);
    }
    // Pieces of equal score have equal rank, so their merges run from left to right.
    std::stable_sort(merged.begin(), merged.end(),
                     [](const auto* a, const auto* b) { return a->score > b->score; });
    std::vector<std::pair<std::string, uint32_t>> ranks;
    for (size_t i = 0; i < merged.size(); ++i) {
      const bool tie = i > 0 && merged[i]->score == merged[i - 1]->score;
      ranks.emplace_back(merged[i]->text, tie ? ranks.back().second : static_cast<uint32_t>(i));
    }
    try {
      merge_by_rank(spec, ranks, static_cast<uint32_t>(model_.pieces.size()));
    } catch (const Error& error) {
      fail("pieces", error.what());
    }
    return bpe_model(std::move(spec));
  }

  // Sets the tokens that EncodeOptions::add_special_tokens puts around a text.
  void add_ends(Stages& stages) const {
    const auto control = [&](const std::string& text) -> std::optional<uint32_t> {
      for (size_t i = 0; i < model_.pieces.size(); ++i) {
        const ModelPiece& piece = model_.pieces[i];
        if (piece.type == PieceType::kControl && piece.text == text)
          return static_cast<uint32_t>(i);
      }
      return std::nullopt;
    };
    const auto begin = control(model_.begin);
    const auto end = control(model_.end);
    bool adds_begin = begin.has_value();
    bool adds_end = !begin && end;
    const fs::path config = fs::path(file_).parent_path() / "tokenizer_config.json";
    if (fs::exists(config)) {
      const std::string name = config.string();
      Diagnostics found;
      const auto json = parse_sorted_json(read_file(config), name, found);
      if (!json) throw Error(ErrorKind::kFormat, cat(name, ": ", found.items().front().message));
      const JsonField root(*json, "", name);
      adds_begin = root.flag("add_bos_token", adds_begin);
      adds_end = root.flag("add_eos_token", adds_end);
    }
    if (adds_begin && begin) stages.post.before.push_back(*begin);
    if (adds_end && end) stages.post.after.push_back(*end);
  }

  const std::string& file_;
  Model model_;
  UnknownText unknown_;
  std::shared_ptr<Trie> fixed_ = std::make_shared<Trie>();
};

}  // namespace

bool is_sentencepiece(std::string_view content) {
  // A piece is field 1 of the file's message, and its text is field 1 of the piece's message.
  ProtoReader reader(content.substr(0, std::min<size_t>(content.size(), 1 << 16)));
  ProtoField piece;
  if (!reader.next(piece) || piece.field != 1 || !piece.is_bytes) return false;
  ProtoReader inner(piece.bytes);
  ProtoField text;
  return inner.next(text) && text.field == 1 && text.is_bytes && !text.bytes.empty();
}

std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view content, const std::string& file) {
  return make_pipeline(ModelReader(file).read(content));
}

}  // namespace am::data
