// Formats the result of `am-plan search` as text and as JSON. `enough`: the smallest number of GPUs
// on which a layout fits into memory. It is set only if no layout fits on the requested number of
// GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/base/json.h"
#include "am/predict/search/search.h"
#include "am/term/style.h"

namespace am_plan {

// Returns a warning if some of the layouts compute in float32, otherwise an empty string. The times
// and the MFU of these layouts cannot be compared with those of layouts in bfloat16: the MFU refers
// to the peak FLOP/s of float32.
std::string precision_warning(const am::predict::SearchResult& result);

am::Json search_json(const am::predict::SearchResult& result,
                     const am::predict::SearchRequest& request, std::optional<int64_t> enough);
std::string search_text(const am::predict::SearchResult& result,
                        const am::predict::SearchRequest& request, std::optional<int64_t> enough,
                        const am::term::Style& style);

}  // namespace am_plan
