#include "am/data/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {
namespace {

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text = {};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(const std::string& pattern) {
  int error = 0;
  size_t offset = 0;
  auto code = std::make_shared<Code>();
  code->compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr);
  if (code->compiled == nullptr) {
    throw Error(
        ErrorKind::kFormat,
        cat("the pattern \"", pattern, "\" does not compile: ", error_text(error), " at ", offset));
  }
  // The JIT compiler only makes matching faster: if the system forbids it, PCRE2 interprets the
  // pattern.
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);
  code_ = std::move(code);
}

void Regex::for_each_match(std::string_view text,
                           const std::function<void(size_t, size_t)>& found) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code_->compiled, nullptr));
  size_t at = 0;
  while (at < text.size()) {
    // PCRE2_NO_UTF_CHECK is set because each call would otherwise validate the whole text again.
    const int count =
        pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) return;
    if (count < 0) {
      throw Error(ErrorKind::kRuntime,
                  cat("splitting the text failed at byte ", at, ": ", error_text(count)));
    }
    const size_t* bounds = pcre2_get_ovector_pointer(match.get());
    found(bounds[0], bounds[1]);
    at = bounds[1];
  }
}

}  // namespace am::data
