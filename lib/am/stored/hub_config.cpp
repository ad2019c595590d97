#include "am/stored/hub_config.h"

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNoConfig = "there is no config.json in the folder or beside it";

bool is_hub_config(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  try {
    Diagnostics found;
    const auto json = parse_json(read_file(file), file.string(), found);
    return json && json->is_object() && json->contains("model_type");
  } catch (const Error&) {  // another program may have written a config.json that is not JSON
    return false;
  }
}

}  // namespace

HubConfig find_hub_config(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    const fs::path file = folder / "config.json";
    if (!is_hub_config(file)) continue;
    HubConfig result{file, {}, {}};
    Diagnostics found;
    result.config = model::load_config(file, found);
    for (const Diagnostic& each : found.items()) {
      if (each.severity != Severity::kError) continue;
      result.problem = cat(file.string(), ": ", each.message);
      break;
    }
    return result;
  }
  return {{}, {}, kNoConfig};
}

HubConfig hub_config_of(const TensorSource& source) {
  const fs::path file = source.config_file();
  // For an empty path, folder_of() would return the current folder, whose config.json may belong to
  // another model.
  return file.empty() ? HubConfig{{}, {}, kNoConfig} : find_hub_config({folder_of(file)});
}

}  // namespace am::stored
