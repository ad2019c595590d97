#include "am/run_folder/checkpoint_info.h"

#include <cmath>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json_integer.h"
#include "am/base/text.h"
#include "am/mesh/sizes_json.h"

namespace am::run_folder {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormatName = "automesh-checkpoint";

Json lineage_json(const std::vector<JobStep>& lineage) {
  Json list = Json::array();
  for (const JobStep& each : lineage) {
    list.push_back({{"job", each.job}, {"from_step", each.from_step}});
  }
  return list;
}

void read_history(const Json& json, CheckpointInfo& info) {
  info.save_id = json.value("save", "");
  if (const auto lineage = json.find("lineage"); lineage != json.end()) {
    for (const Json& each : *lineage) {
      info.lineage.push_back({each.at("job").get<std::string>(), integer_of(each.at("from_step"))});
    }
  }
  if (const auto samples = json.find("samples"); samples != json.end()) {
    info.samples = integer_of(*samples);
  }
  if (const auto facts = json.find("facts"); facts != json.end()) info.facts = *facts;
}

// Reads skipped_steps and loss_scale. Both may be missing: skipped_steps is written only if above
// 0, and loss_scale only in float16 training.
void read_skipped_steps(const Json& json, CheckpointInfo& info) {
  const auto skipped = json.find("skipped_steps");
  if (skipped != json.end()) info.skipped_steps = integer_of(*skipped);
  const auto scale = json.find("loss_scale");
  if (scale == json.end()) return;
  info.loss_scale = {scale->at("scale").get<double>(), integer_of(scale->at("growth_tracker"))};
}

void read_validated(const Json& json, CheckpointInfo& info) {
  const auto found = json.find("validation");
  if (found == json.end()) return;
  CheckpointInfo::Validated validated;
  if (const auto loss = found->find("loss"); loss != found->end()) validated.loss = *loss;
  validated.best = found->at("best").get<double>();
  validated.since_best = integer_of(found->at("since_best"));
  validated.data = found->at("data").get<std::string>();
  info.validated = validated;
}

void check(const CheckpointInfo& info, const std::string& file) {
  const auto lies = [&](const std::string& what) {
    return Error(ErrorKind::kFormat, cat(file, ": ", what));
  };
  if (info.world_size < 1 || info.mesh.world_size() != info.world_size) {
    throw lies("the product of its mesh sizes is not its world_size");
  }
  constexpr int64_t kMost = int64_t{1} << 62;
  if (info.step < 0 || info.samples.value_or(0) < 0 || info.samples.value_or(0) > kMost) {
    throw lies(
        cat("step ", info.step, " with ", info.samples.value_or(0), " samples is out of range"));
  }
  bool legal = info.skipped_steps >= 0 && info.skipped_steps <= info.step;
  if (const auto& scale = info.loss_scale) {
    legal =
        legal && std::isfinite(scale->scale) && scale->scale > 0.0 && scale->growth_tracker >= 0;
  }
  if (!legal) throw lies("its skipped_steps or loss_scale is out of range");
  if (!info.facts.is_null() && !info.facts.is_object()) throw lies("\"facts\" is not an object");
}

}  // namespace

std::string to_json_text(const CheckpointInfo& info) {
  Json json = {{"format", kFormatName},
               {"version", kCheckpointVersion},
               {"step", info.step},
               {"world_size", info.world_size},
               {"model_type", info.model_type},
               {"mesh", mesh::to_json(info.mesh)}};
  if (!info.save_id.empty()) json["save"] = info.save_id;
  if (!info.lineage.empty()) json["lineage"] = lineage_json(info.lineage);
  if (info.samples) json["samples"] = *info.samples;
  if (info.skipped_steps > 0) json["skipped_steps"] = info.skipped_steps;
  if (info.loss_scale) {
    json["loss_scale"] = {{"scale", info.loss_scale->scale},
                          {"growth_tracker", info.loss_scale->growth_tracker}};
  }
  if (info.validated) {
    json["validation"] = {{"best", info.validated->best},
                          {"since_best", info.validated->since_best},
                          {"data", info.validated->data}};
    if (info.validated->loss) json["validation"]["loss"] = *info.validated->loss;
  }
  if (!info.facts.is_null()) json["facts"] = info.facts;
  return dump_json(json) + "\n";
}

CheckpointInfo parse_checkpoint_info(const std::string& text, const std::string& file) {
  Diagnostics found;
  const auto json = parse_json(text, file, found);
  try {
    if (!json || json->at("format") != kFormatName) {
      throw Error(ErrorKind::kFormat, cat(file, ": not an am-run checkpoint"));
    }
    CheckpointInfo info;
    if (json->at("version") != kCheckpointVersion) {
      throw Error(
          ErrorKind::kFormat,
          cat(file, ": version ", json->at("version").dump(),
              " is not supported; this am-run reads version ", kCheckpointVersion),
          "export the model with the am-repl of the version that wrote it (am-repl FOLDER -c "
          "\"export DIR\"), and name the exported folder in model.weights");
    }
    info.step = integer_of(json->at("step"));
    info.world_size = integer_of(json->at("world_size"));
    info.model_type = json->at("model_type").get<std::string>();
    info.mesh = mesh::sizes_from_json(json->at("mesh"));
    read_history(*json, info);
    read_skipped_steps(*json, info);
    read_validated(*json, info);
    check(info, file);
    return info;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kFormat, cat(file, ": ", json_reason(error)));
  }
}

bool is_checkpoint(const fs::path& folder) { return fs::exists(folder / kInfoFile); }

std::optional<Refusal> why_no_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return Refusal{cat(path.string(), ": no such checkpoint"),
                   "write \"auto\", \"none\" or the path of a step folder"};
  }
  if (fs::exists(path / kInfoFile, ignored)) return std::nullopt;
  const fs::path steps = path.filename() == "checkpoints" ? path : path / "checkpoints";
  if (fs::is_directory(steps, ignored)) {
    return Refusal{cat(path.string(), ": this folder contains checkpoints, but is not one of them"),
                   cat("name one of them, ", (steps / "step-N").string(),
                       "; or write \"auto\" to resume from the newest in the job's own folder")};
  }
  return std::nullopt;
}

CheckpointInfo read_checkpoint_info(const fs::path& folder) {
  const fs::path file = folder / kInfoFile;
  return parse_checkpoint_info(read_file(file), file.string());
}

}  // namespace am::run_folder
