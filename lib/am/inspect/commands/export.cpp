#include <filesystem>

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/weight_dtype.h"

namespace am::inspect {
namespace {

namespace fs = std::filesystem;

std::optional<at::ScalarType> dtype_option(const Arguments& arguments) {
  const auto found = arguments.options.find("--dtype");
  if (found == arguments.options.end()) return std::nullopt;
  return parse_weight_dtype(found->second);
}

Result run_export(Session& session, const Arguments& arguments) {
  const auto format = arguments.options.find("--format");
  if (format != arguments.options.end() && format->second != "hf") {
    throw Error(ErrorKind::kUsage, cat("unknown format `", format->second, "`"),
                "formats: hf (Hugging Face safetensors)");
  }
  const fs::path folder = expand_home(arguments.words.front());
  session.view().export_hf(folder, dtype_option(arguments), session.between());
  Json files = Json::array();
  int64_t bytes = 0;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    paths.push_back(entry.path());
    bytes += static_cast<int64_t>(entry.file_size());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) files.push_back(path.filename().string());
  Result result;
  result.json = {{"path", folder.string()}, {"files", files}, {"bytes", bytes}};
  result.text =
      cat("wrote ", folder.string(), ": ", paths.size(), " files, ", format_bytes(bytes), "\n");
  return result;
}

}  // namespace

constexpr Option kExportOptions[] = {
    {"--format", "hf", "Hugging Face safetensors; the only one"},
    {"--dtype", "D", "float32 (fp32), bfloat16 (bf16) or float16 (fp16); as stored when left out"}};

const Command kExportCommand = {
    .name = "export",
    .operands = "DIR",
    .summary = "write a folder that transformers loads",
    .help =
        "Parameters are gathered one at a time. The folder appears whole or not at all; one that "
        "is there already\n"
        "must be empty. Ctrl-C ends it, and leaves nothing.\n"
        "Example:  export llama-hf --dtype bfloat16\n"
        "JSON: path, files, bytes.",
    .completes = Operand::kPath,
    .min_words = 1,
    .max_words = 1,
    .options = kExportOptions,
    .run = run_export,
};

}  // namespace am::inspect
