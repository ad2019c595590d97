#include "am/inspect/facts.h"

#include <filesystem>
#include <set>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/from_plan.h"
#include "am/data/tokenizer.h"

namespace am::inspect {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kByteIds = 256;

}  // namespace

std::string first_error(const Diagnostics& found) {
  for (const Diagnostic& item : found.items()) {
    if (item.severity != Severity::kError) continue;
    if (item.span.file.empty()) return item.message;
    if (item.span.line == 0) return cat(item.span.file, ": ", item.message);
    return cat(item.span.file, ":", item.span.line, ": ", item.message);
  }
  return {};
}

std::string mesh_text(const mesh::MeshLayout& mesh) {
  std::vector<std::string> parts;
  for (const mesh::Axis axis : mesh::kAxes) {
    const int64_t size = mesh.sizes().size(axis);
    if (size > 1) parts.push_back(cat(mesh::to_string(axis), " ", size));
  }
  return join(parts, ", ");
}

std::string make_title(const std::string& model_type, const std::string& what,
                       const mesh::MeshLayout& mesh) {
  const std::string axes = mesh_text(mesh);
  return cat(model_type, " ", what, axes.empty() ? "" : cat(" [", axes, "]"));
}

void add_totals(const std::vector<HeldParameter>& parameters, Json& json) {
  int64_t elements = 0;
  int64_t bytes = 0;
  std::set<std::string> dtypes;
  for (const HeldParameter& parameter : parameters) {
    elements += parameter.numel();
    bytes += parameter.bytes();
    dtypes.insert(formats::torch_name(parameter.dtype));
  }
  json["parameters"] = elements;
  json["tensors"] = parameters.size();
  json["bytes"] = bytes;
  json["dtype"] = join(std::vector<std::string>(dtypes.begin(), dtypes.end()), ", ");
}

void add_mesh(const mesh::MeshLayout& mesh, Json& json) {
  json["world_size"] = mesh.world_size();
  Json dims = Json::array();
  Json sizes = Json::array();
  for (const mesh::Axis axis : mesh::kAxes) {
    dims.push_back(mesh::to_string(axis));
    sizes.push_back(mesh.sizes().size(axis));
  }
  json["mesh"] = {{"dims", dims}, {"sizes", sizes}};
}

Json name_or_null(const DefaultTokenizer& tokenizer) {
  return tokenizer.name.empty() ? Json(nullptr) : Json(tokenizer.name);
}

DefaultTokenizer tokenizer_beside(const fs::path& folder, int64_t vocab_size) {
  if (const auto found = data::find_tokenizer(folder)) return {found->string(), {}};
  std::vector<std::string> others;
  for (const char* name : {"vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json"}) {
    if (fs::exists(folder / name)) others.emplace_back(name);
  }
  if (others.empty() && vocab_size <= kByteIds) return {"bytes", {}};
  const std::string there =
      others.empty() ? std::string()
                     : cat("; the folder has ", join(others, ", "), ", which automesh cannot read");
  return {{},
          cat(folder.string(), ": no tokenizer was found for this model's vocabulary of ",
              vocab_size, " tokens", there)};
}

DefaultTokenizer tokenizer_of(const config::Plan& plan, int64_t vocab_size) {
  const std::string name = data::tokenizer_name(plan);
  if (name != "bytes") return {name, {}};
  if (plan.data.reads_text()) return {"bytes", {}};
  return tokenizer_beside(folder_of(plan.resolve(plan.model.path)), vocab_size);
}

}  // namespace am::inspect
