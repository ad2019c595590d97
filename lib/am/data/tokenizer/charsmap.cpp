#include "am/data/tokenizer/charsmap.h"

#include <cstring>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {

Charsmap::Charsmap(std::string_view bytes) {
  const auto fail = [](const std::string& reason) {
    throw Error(ErrorKind::kFormat, cat("the character map ", reason));
  };
  uint32_t size = 0;
  if (bytes.size() < sizeof(size)) fail("has no header");
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (size > bytes.size() || size % sizeof(uint32_t) != 0 || size == 0) {
    fail(cat("has a trie of ", size, " bytes, but ", bytes.size(), " bytes follow"));
  }
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data(), size);
  texts_ = bytes.substr(size);
  if (!is_utf8(texts_)) fail("has replacements that are not UTF-8");
  texts_ += '\0';
}

}  // namespace am::data
