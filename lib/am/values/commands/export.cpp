#include <filesystem>

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/checkpoint/export_dcp.h"
#include "am/inspect/stored_files.h"
#include "am/values/commands/registry.h"
#include "am/values/weight_dtype.h"

namespace am::values {
namespace {

namespace fs = std::filesystem;

std::optional<at::ScalarType> dtype_option(const Arguments& arguments) {
  const auto found = arguments.options.find("--dtype");
  if (found == arguments.options.end()) return std::nullopt;
  return parse_weight_dtype(found->second);
}

struct ExportFormat {
  std::string_view name;
  const frameworks::NameTable& (*table)();  // renames the tensors; null: they keep their names
};
constexpr ExportFormat kDcpFormats[] = {{"dcp", nullptr},
                                        {"torchtitan", &frameworks::torchtitan_table},
                                        {"olmo", &frameworks::olmo_table},
                                        {"megatron", &frameworks::megatron_table}};

void write_export(Session& session, const Arguments& arguments, const fs::path& folder) {
  const std::string format = arguments.value("--format", "hf");
  const bool optimizer = arguments.has("--optimizer");
  if (optimizer && format != "dcp") {
    throw Error(ErrorKind::kUsage, cat("--optimizer: not possible with an export to ", format),
                "the optimizer states can be exported with --format dcp");
  }
  if (format == "hf") {
    return values_of(session).export_hf(folder, dtype_option(arguments), session.between());
  }
  for (const ExportFormat& each : kDcpFormats) {
    if (each.name != format) continue;
    const stored::TensorSource& source = require_files(session, cat("export --format ", format));
    const frameworks::NameTable* table = each.table == nullptr ? nullptr : &each.table();
    return checkpoint::export_dcp(
        folder, source,
        {table, dtype_option(arguments), session.view().default_tokenizer().path(), optimizer},
        session.between());
  }
  throw Error(ErrorKind::kUsage, cat("unknown format `", format, "`"),
              "formats: hf (Hugging Face safetensors), dcp (torch.distributed.checkpoint), "
              "torchtitan, olmo, megatron");
}

// Throws if files are damaged, because an export would silently lack their tensors.
void require_undamaged(const stored::TensorSource& source) {
  const std::vector<stored::StoredProblem> damage = source.damage();
  if (damage.empty()) return;
  throw Error(
      ErrorKind::kFormat,
      cat(source.path().string(), " is damaged: ", damage.front().where, ": ", damage.front().what),
      "`verify` lists what is lost; copy the folder again, then export it");
}

Result run_export(Session& session, const Arguments& arguments) {
  const fs::path folder = expand_home(arguments.words.front());
  if (const auto* source = session.view().source()) require_undamaged(*source);
  write_export(session, arguments, folder);
  Json files = Json::array();
  int64_t bytes = 0;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    paths.push_back(entry.path().lexically_relative(folder));
    bytes += static_cast<int64_t>(entry.file_size());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) files.push_back(path.string());
  Result result;
  result.json = {{"path", folder.string()}, {"files", files}, {"bytes", bytes}};
  result.text =
      cat("wrote ", folder.string(), ": ", paths.size(), " files, ", format_bytes(bytes), "\n");
  return result;
}

}  // namespace

constexpr Option kExportOptions[] = {
    {"--format", "hf|dcp|torchtitan|olmo|megatron", "default hf"},
    {"--dtype", "float32|bfloat16|float16", "or fp32, bf16, fp16; default: as stored"},
    {"--optimizer", "", "also the optimizer states, for dcp"}};

const Command kExportCommand = {
    .name = "export",
    .operands = "DIR",
    .summary = "write a folder for transformers, PyTorch or a training framework",
    .help =
        "transformers loads hf. The others are folders of torch.distributed.checkpoint, made from "
        "a checkpoint on\ndisk: dcp names tensors model.NAME; torchtitan, olmo and megatron use "
        "the names and rows of that framework.\nOne parameter, or a few MiB of its rows, is in "
        "memory at a time. The folder appears whole or not at all; an\nexisting one must be empty. "
        "Ctrl-C ends the export, and leaves nothing.\nExample:  export llama-hf --dtype bfloat16",
    .json = "{path: string, files: [string], bytes: integer}",
    .completes = Operand::kPath,
    .min_words = 1,
    .max_words = 1,
    .options = kExportOptions,
    .run = run_export,
};

}  // namespace am::values
