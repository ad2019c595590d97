#include <filesystem>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/checkpoint/export_dcp.h"
#include "am/inspect/stored_files.h"
#include "am/inspect/words.h"
#include "am/values/commands/functions.h"
#include "am/values/tensor_files.h"
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
  const frameworks::NameTable& (*table)();  // names of the tensors in the format; null: unchanged
};
constexpr ExportFormat kDcpFormats[] = {{"dcp", nullptr},
                                        {"torchtitan", &frameworks::torchtitan_table},
                                        {"olmo", &frameworks::olmo_table},
                                        {"megatron", &frameworks::megatron_table}};

// Writes the export, and returns notes for the user.
std::vector<std::string> write_export(Session& session, const Arguments& arguments,
                                      const fs::path& folder) {
  const std::string format = arguments.value("--format", "hf");
  const bool optimizer = arguments.has("--optimizer");
  const auto dtype = dtype_option(arguments);
  const bool weights_alone = format == "hf" || format == "safetensors";
  if (optimizer && weights_alone) {
    throw Error(ErrorKind::kUsage, cat("--optimizer: not possible with an export to ", format),
                "the optimizer states can be exported with --format dcp, torchtitan, olmo or "
                "megatron");
  }
  const bool merges = arguments.has("--merge");
  if (merges && format != "hf") {
    throw Error(ErrorKind::kUsage, cat("--merge: not possible with an export to ", format),
                "export a merged folder with --format hf first, then export that folder");
  }
  if (weights_alone) {
    const bool weights_only = format == "safetensors";
    checkpoint::HubExport options = {.dtype = dtype, .weights_only = weights_only};
    if (merges) options.adapters = checkpoint::AdapterExport::kMerged;
    values_of(session).export_hf(folder, options, session.between());
    return {};
  }
  for (const ExportFormat& each : kDcpFormats) {
    if (each.name != format) continue;
    const stored::TensorSource& source = require_files(session, cat("export --format ", format));
    const frameworks::NameTable* table = each.table == nullptr ? nullptr : &each.table();
    return checkpoint::export_dcp(
        folder, source, {table, dtype, session.view().default_tokenizer().path(), optimizer},
        session.between());
  }
  throw Error(ErrorKind::kUsage, cat("unknown format `", format, "`"),
              "formats: hf (Hugging Face folder), safetensors (weights alone), dcp "
              "(torch.distributed.checkpoint), torchtitan, olmo, megatron");
}

// Throws if files are damaged, because the exported model would silently lack the tensors of these
// files.
void require_undamaged(const stored::TensorSource& source) {
  const std::vector<stored::StoredProblem> damage = source.damage();
  if (damage.empty()) return;
  throw Error(
      ErrorKind::kFormat,
      cat(source.path().string(), " is damaged: ", damage.front().where, ": ", damage.front().what),
      "`verify` lists what is lost; copy the folder again, then export it");
}

}  // namespace

Result run_export(Session& session, const Arguments& arguments) {
  if (arguments.has("--only")) {
    for (const char* other : {"--format", "--dtype", "--optimizer", "--merge"}) {
      if (!arguments.has(other)) continue;
      throw Error(ErrorKind::kUsage, cat(other, ": not possible with --only"),
                  "the tensors keep their dtypes and names");
    }
    const auto names = inspect::split_words(arguments.value("--only", ""));
    if (names.empty()) throw Error(ErrorKind::kUsage, "--only names no tensor");
    if (const auto* source = session.view().source()) require_undamaged(*source);
    return written_tensors(session, pick_all(session, names), arguments.words.front(),
                           arguments.has("--force"));
  }
  const fs::path folder = session.path(arguments.words.front());
  if (const auto* source = session.view().source()) require_undamaged(*source);
  const std::vector<std::string> notes = write_export(session, arguments, folder);
  Json files = Json::array();
  int64_t bytes = 0;
  std::vector<fs::path> paths;
  // Only rank 0 lists the exported files, because other ranks may run on machines without the
  // folder.
  const auto entries = session.view().rank() == 0 ? fs::recursive_directory_iterator(folder)
                                                  : fs::recursive_directory_iterator();
  for (const fs::directory_entry& entry : entries) {
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
  if (!notes.empty()) result.json["notes"] = notes;
  for (const std::string& note : notes) result.text += cat("note: ", note, "\n");
  return result;
}

}  // namespace am::values
