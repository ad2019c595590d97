#include "am/formats/weight_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "am/base/text.h"

namespace am::formats {

namespace fs = std::filesystem;

namespace {

// Whether the name of a file is typical of pickled weights, as transformers ("pytorch_model.bin")
// and Meta ("consolidated.00.pth") name them. False for other pickles, for example "optimizer.pt".
bool is_pickled_weights(std::string_view name) {
  constexpr std::array<std::string_view, 3> kBegins = {"pytorch_model", "consolidated", "model"};
  constexpr std::array<std::string_view, 4> kEnds = {".bin", ".bin.index.json", ".pt", ".pth"};
  const auto begins = [&](std::string_view begin) { return starts_with(name, begin); };
  const auto ends = [&](std::string_view end) { return ends_with(name, end); };
  return std::any_of(kBegins.begin(), kBegins.end(), begins) &&
         std::any_of(kEnds.begin(), kEnds.end(), ends);
}

}  // namespace

WeightFiles weight_files(const fs::path& folder) {
  WeightFiles found;
  bool named = false, others = false, pytorch = false;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    pytorch = pytorch || name == kPytorchModel || name == kPytorchModelIndex;
    if (name == "model.safetensors" || name == "model.safetensors.index.json") {
      named = true;
    } else if (ends_with(name, ".safetensors")) {
      others = true;
    } else if (is_pickled_weights(name) && (found.pickled.empty() || name < found.pickled)) {
      found.pickled = name;
    }
  }
  found.safetensors = named || (others && !pytorch);  // same precedence as in transformers
  return found;
}

}  // namespace am::formats
