// data.kind = "text": documents through the tokenizer, held in memory.
#pragma once

#include <memory>

#include "am/data/token_source.h"

namespace am::data {

// What open_token_source() gives for this kind.
std::unique_ptr<TokenSource> open_text(const DataSpec& spec);

}  // namespace am::data
