// Part of Trainer: the files of a job. Writes its checkpoints, exports, metrics and record into the
// run folder, and makes sure that the folder is still the one in which the job began.
#include <algorithm>
#include <chrono>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/checkpoint/collective_step.h"
#include "am/checkpoint/weights.h"
#include "am/data/from_plan.h"
#include "am/formats/dcp_metadata.h"
#include "am/launch/supervise/wall_time.h"
#include "am/observe/best_effort_sink.h"
#include "am/observe/prometheus_sink.h"
#include "am/observe/tensorboard_sink.h"
#include "am/optim/schedule.h"
#include "am/run_folder/step_folders.h"
#include "am/tensor/side_stream.h"
#include "am/train/saved_states.h"
#include "am/train/trainer.h"

namespace am::train {

namespace fs = std::filesystem;

checkpoint::SavedState Trainer::saved_state(int64_t steps) const {
  checkpoint::SavedState state;
  run_folder::CheckpointInfo& info = state.info;
  info.step = steps;
  guard_->write_to(info);
  if (validation_) validation_->write_to(info);
  info.world_size = layout_.mesh.world_size();
  info.mesh = layout_.mesh.sizes();
  info.model_type = model_->config().model_type;
  info.lineage = lineage_of(resume_point_, job_.id);
  info.samples = batches_->samples_read(steps);
  info.facts = facts_;
  state.plan_toml = config::to_toml(plan_);
  state.states = saved_states(*optimizer_, *model_);
  const double lr = optim::learning_rate(plan_.scheduler, plan_.optimizer.lr, plan_.train.max_steps,
                                         std::max<int64_t>(steps - 1, 0));
  state.require_place = [this] { require_folders(); };
  state.metadata_parts = plan_.checkpoint.metadata_parts;
  state.optimizer =
      checkpoint::SavedOptimizer{plan_.optimizer, lr, steps - info.skipped_steps, peak_lr_};
  return state;
}

fs::path Trainer::save(int64_t steps) {
  if (!guard_->allows_writing(cat("checkpoint ", run_folder::checkpoint_name(steps)))) return {};
  await_drop();
  if (held_.empty()) hold_folders();
  const checkpoint::SavedState state = saved_state(steps);
  fs::path folder = checkpoints_ / run_folder::checkpoint_name(steps);
  // Deletes old checkpoints and updates the links to checkpoints. Called on rank 0 when the new
  // checkpoint has been written.
  const auto drop_old = [this, lineage = state.info.lineage] {
    require_folders();
    const config::CheckpointSection& section = plan_.checkpoint;
    // At any moment, another folder may replace the job's folder at its path. Checkpoints are
    // therefore deleted by a path that leads to the folder that hold_folders() opened.
    const fs::path opened = held_.back().opened();
    run_folder::drop_old(held_.size() > 1 ? opened : run_folder::RunFolder(opened).checkpoints(),
                         {section.keep, section.keep_every, section.keep_best}, lineage);
    link_checkpoints(lineage);
  };
  guard_->note_checkpoint();
  const auto start = std::chrono::steady_clock::now();
  if (saver_) {
    saver_->save(folder, state, drop_old);
    note_missing_metadata(std::exchange(newest_, folder));
    log(cat("checkpoint  ", folder.string(),
            tensor::is_asynchronous(mesh_.device())
                ? ""
                : cat(", copied in ", format_duration(launch::seconds_since(start))),
            ", is being written while training continues"));
    return folder;
  }
  checkpoint::save_checkpoint(folder, state, *model_);
  log(cat("checkpoint  ", folder.string(), " in ", format_duration(launch::seconds_since(start))));
  note_missing_metadata(folder);
  if (mesh_.rank() == 0) dropping_ = std::async(std::launch::async, drop_old);
  return folder;
}

void Trainer::note_missing_metadata(const fs::path& folder) {
  if (mesh_.rank() != 0 || folder.empty() || metadata_noted_) return;
  if (fs::exists(folder / formats::kDcpMetadataFile)) return;
  if (!run_folder::is_checkpoint(folder)) return;  // the checkpoint was deleted meanwhile
  metadata_noted_ = true;
  log(cat("note        ", folder.filename().string(),
          " has more parts than checkpoint.metadata_parts = ", plan_.checkpoint.metadata_parts,
          ": no .metadata for PyTorch was written"));
}

void Trainer::await_drop() {
  if (dropping_.valid()) dropping_.get();
}

void Trainer::link_checkpoints(const std::vector<run_folder::JobStep>& lineage) const {
  run_folder::link_checkpoints(run_, held_.front(), checkpoints_, lineage);
}

void Trainer::hold_folders() {
  held_.clear();
  held_.emplace_back(run_.root());
  if (checkpoints_ != run_.checkpoints()) held_.emplace_back(checkpoints_);
}

void Trainer::require_folders() const {
  for (const auto& folder : held_) folder.require();
  if (checkpoints_ == run_.checkpoints()) behind_own_links(checkpoints_);
}

void Trainer::begin() {
  await_drop();  // the thread that deletes checkpoints uses held_, which hold_folders() replaces
  hold_folders();
  if (nothing_to_do()) {
    log(cat("nothing to do: step ", first_step_, " of ", plan_.train.max_steps, " is done"));
  }
  watch_.exchange_hosts();
  checkpoint::collective_step(
      world_.group(), [] {},
      [&] {
        if (mesh_.rank() != 0) return;
        if (plan_.checkpoint.export_format == "hf") behind_own_links(run_.root() / "export");
        const auto before = run_folder::read_record(run_);
        const bool restarted = before && before->job.id == job_.id;
        record_ = run_folder::begin_record(run_, job_, first_step_);
        clock_.follow(record_.time, job_.began);
        clock_.save(first_step_);
        if (nothing_to_do()) return;
        for (const std::string& name : run_folder::set_aside(checkpoints_, first_step_)) {
          log(cat("note        set aside: ", name, " is beyond step ", first_step_));
        }
        link_checkpoints(lineage_of(resume_point_, job_.id));
        if (first_step_ > 0 || restarted) return;
        const auto kept = observe::set_aside(run_.metrics_file());
        if (kept) log(cat("note        the metrics of an earlier run are in ", kept->string()));
      });
}

run_folder::JobRecord Trainer::record_after(const TrainResult& result) {
  run_folder::JobRecord record = record_;
  record.time = clock_.time();
  record.steps = result.steps;
  if (result.last) record.loss = result.last->loss;
  return record;
}

void Trainer::end(const TrainResult& result) {
  if (mesh_.rank() != 0) return;
  clock_.enter(run_folder::Phase::kStopping);
  require_folders();
  run_folder::JobRecord record = record_after(result);
  record.stopped = result.stopped;
  record.ended = true;
  run_folder::write_record(run_, record);
}

// Opens the files for metrics. Only rank 0 writes metrics. If a file cannot be opened, the job
// ends. If a later write fails, the job ends only if the file is metrics.jsonl.
std::vector<std::unique_ptr<observe::MetricSink>> Trainer::open_sinks() const {
  std::vector<std::unique_ptr<observe::MetricSink>> sinks;
  if (mesh_.rank() != 0 || nothing_to_do()) return sinks;
  sinks.push_back(std::make_unique<observe::JsonlSink>(run_.metrics_file(), first_step_));
  const auto add = [&](std::unique_ptr<observe::MetricSink> sink) {
    sinks.push_back(std::make_unique<observe::BestEffortSink>(
        std::move(sink), [this](const std::string& line) { log(cat("note        ", line)); }));
  };
  if (plan_.metrics.tensorboard) {
    add(std::make_unique<observe::TensorBoardSink>(run_.root() / "tensorboard", first_step_,
                                                   config::to_toml(plan_)));
  }
  if (plan_.metrics.prometheus) {
    add(std::make_unique<observe::PrometheusSink>(run_.root() / "metrics.prom",
                                                  fs::canonical(run_.root()).filename().string()));
  }
  return sinks;
}

void Trainer::start_loggers() {
  const std::vector<std::string>& names = plan_.metrics.loggers;
  if (mesh_.rank() != 0 || nothing_to_do() || names.empty()) return;
  try {
    loggers_ = std::make_unique<observe::Loggers>(
        observe::logger_commands(names, run_.root(), run_.logs(), first_step_),
        [this](const std::string& line) { log(cat("note        ", line)); });
  } catch (const Error& error) {
    log(cat("note        nothing is sent to ", join(names, ", "), ": ", error.what()));
  }
}

void Trainer::record_progress(const TrainResult& result) {
  if (mesh_.rank() != 0) return;
  try {
    run_folder::write_record_in_place(run_folder::RunFolder(held_.front().anywhere()),
                                      record_after(result));
    recorded_ = std::chrono::steady_clock::now();
  } catch (const std::exception&) {
    // The record is not updated, because the run folder is gone or its disk fails.
  }
}

void Trainer::export_model(TrainResult& result) {
  if (!guard_->allows_writing("the export")) return;
  result.exported = run_.root() / "export" / run_folder::checkpoint_name(result.steps);
  checkpoint::collective_step(
      world_.group(), [] {},
      [&] {
        if (mesh_.rank() != 0) return;
        require_folders();
        fs::create_directories(behind_own_links(result.exported.parent_path()));
        fs::remove_all(result.exported);
      });
  try {
    checkpoint::HubExport options;
    if (plan_.lora.merge) options.adapters = checkpoint::AdapterExport::kMerged;
    if (const auto name = data::tokenizer_name(plan_); name != "bytes") options.tokenizer = name;
    with_average([&] { checkpoint::export_hf(result.exported, *model_, options); });
  } catch (const Error&) {
    require_folders();
    throw;
  }
  log(cat("exported    ", result.exported.string()));
}

}  // namespace am::train
