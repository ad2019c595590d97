// Prints the result of `am-plan search`. `enough`: the smallest number of GPUs on which a layout
// fits; set only if memory is too small on the requested number, so that the result has no layouts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/base/json.h"
#include "am/predict/search/search.h"
#include "am/term/style.h"

namespace am_plan {

// Returns a warning if some of the layouts compute in float32, and an empty string otherwise. Their
// times, and their MFU, which refers to the peak FLOP/s of float32, are not comparable with those
// of layouts in bfloat16.
std::string precision_warning(const am::predict::SearchResult& result);

am::Json search_json(const am::predict::SearchResult& result,
                     const am::predict::SearchRequest& request, std::optional<int64_t> enough);
std::string search_text(const am::predict::SearchResult& result,
                        const am::predict::SearchRequest& request, std::optional<int64_t> enough,
                        const am::term::Style& style);

}  // namespace am_plan
