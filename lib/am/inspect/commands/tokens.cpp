#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/data/tokenizer.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/render.h"
#include "am/inspect/text_argument.h"
#include "am/term/printable.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

// Writes bytes as hexadecimal digits with spaces between the bytes.
std::string hexadecimal(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(static_cast<uint8_t>(c)));
    if (!out.empty()) out += ' ';
    out += digits;
  }
  return out;
}

}  // namespace

Result run_tokens(Session& session, const Arguments& arguments) {
  const TextArgument argument = text_or_file(session, arguments);
  const DefaultTokenizer chosen = session.tokenizer();
  if (chosen.name.empty()) {
    throw Error(ErrorKind::kPlan, chosen.problem,
                "`set tokenizer PATH` selects a tokenizer's file; `set tokenizer bytes` makes each "
                "byte a token");
  }
  const auto tokenizer = data::make_tokenizer(chosen.name);
  const std::vector<int64_t> ids =
      tokenizer->encode(argument.text, {.add_special_tokens = arguments.has("--special"),
                                        .split_special_tokens = arguments.has("--split")});
  Result result;
  Json pieces = Json::array();
  Json bytes = Json::array();
  term::Table table({{"id", term::Align::kRight}, {"token"}, {"text"}, {"bytes"}});
  for (const int64_t id : ids) {
    const std::string text = tokenizer->token_bytes(id);
    pieces.push_back(tokenizer->token(id));
    bytes.push_back(hexadecimal(text));
    table.add({std::to_string(id), printable_text(tokenizer->token(id), session.style()),
               quoted_text(text, session.style()), hexadecimal(text)});
  }
  result.json = {{"tokenizer", tokenizer->name()},
                 {"tokens", ids},
                 {"pieces", std::move(pieces)},
                 {"bytes", std::move(bytes)},
                 {"file", argument.file.empty() ? Json(nullptr) : Json(argument.file)}};
  result.text = ids.empty() ? "no tokens\n" : table.text(session.style());
  return result;
}

}  // namespace am::inspect
