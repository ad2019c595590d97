#include "am/checkpoint/dialects/framework_folder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/checkpoint/dcp_source.h"
#include "am/checkpoint/dialects/dialect.h"
#include "am/checkpoint/dialects/mapped_source.h"
#include "am/formats/dcp_metadata.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kOlmoStates = "model_and_optim";

fs::path beside(const fs::path& folder) {
  return fs::absolute(folder).lexically_normal().parent_path();
}

bool any_name(const formats::DcpMetadata& metadata, const auto& fits) {
  return std::any_of(metadata.tensors.begin(), metadata.tensors.end(),
                     [&](const formats::DcpTensor& tensor) { return fits(tensor.name); });
}

bool any_value(const formats::DcpMetadata& metadata, const auto& fits) {
  return std::any_of(metadata.values.begin(), metadata.values.end(),
                     [&](const formats::DcpValue& value) { return fits(value.name); });
}

// Its last save may be of the model alone.
bool is_torchtitan(const formats::DcpMetadata& metadata) {
  constexpr std::string_view kStep = "train_state.step";
  if (any_value(metadata, [&](std::string_view name) { return name == kStep; })) return true;
  return any_name(metadata, [&](std::string_view name) {
    return name == kStep || name == "tok_embeddings.weight" ||
           match_name("layers.#.attention.wo.weight", name).has_value();
  });
}

bool is_olmo(const formats::DcpMetadata& metadata) {
  if (metadata.writer == "olmo_core") return true;
  return any_name(metadata, [](std::string_view name) {
    return match_name("model.blocks.#.attention.w_out.weight", name).has_value();
  });
}

std::unique_ptr<TensorSource> open_dcp_folder(const fs::path& folder) {
  auto metadata = formats::read_dcp_metadata(folder / formats::kDcpMetadataFile);
  const DialectTable* table = nullptr;
  std::vector<fs::path> configs = {folder, beside(folder)};
  if (is_olmo(metadata)) {
    table = &olmo_table();
    configs.push_back(beside(configs.back()));  // of step123/model_and_optim
  } else if (is_torchtitan(metadata)) {
    table = &torchtitan_table();
  }
  auto stored = open_dcp_source(folder, std::move(metadata));
  return table == nullptr ? std::move(stored) : as_hub(std::move(stored), *table, configs);
}

}  // namespace

bool is_framework_folder(const fs::path& path) {
  return is_dcp_source(path) || is_dcp_source(path / kOlmoStates);
}

std::unique_ptr<TensorSource> open_framework_folder(const fs::path& path) {
  if (is_dcp_source(path / kOlmoStates)) return open_dcp_folder(path / kOlmoStates);
  return open_dcp_folder(path);
}

}  // namespace am::checkpoint
