#include "am/train/resume.h"

#include <chrono>
#include <thread>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/checkpoint/collective_step.h"
#include "am/config/batch.h"
#include "am/run_folder/data_files.h"
#include "am/run_folder/step_folders.h"
#include "am/train/foreign_checkpoint.h"
#include "am/train/run_facts.h"

namespace am::train {

namespace fs = std::filesystem;

namespace {

fs::path newest_whole(const fs::path& checkpoints, std::vector<std::string>& notes) {
  const auto newest = run_folder::newest_complete(checkpoints);
  if (!newest.found && !newest.skipped.empty()) {
    throw Error(
        ErrorKind::kFormat,
        cat(checkpoints.string(), ": no checkpoint is complete:\n  ", join(newest.skipped, "\n  ")),
        "--resume none starts a new run and sets these checkpoints aside");
  }
  for (const std::string& each : newest.skipped) notes.push_back(cat("skipped: ", each));
  return newest.found ? newest.found->path : fs::path();
}

struct Choice {
  fs::path folder;
  std::string info;      // text of checkpoint.json, or its equivalent (describe_foreign)
  bool foreign = false;  // whether another program wrote the checkpoint
  std::vector<std::string> notes;
};

// Returns the text for Choice::info. `foreign`: whether another program wrote the checkpoint.
std::string info_text(const fs::path& folder, bool foreign) {
  return foreign ? run_folder::to_json_text(describe_foreign(folder))
                 : read_file(folder / run_folder::kInfoFile);
}

Choice choose(const config::Plan& plan, const fs::path& checkpoints) {
  Choice choice;
  choice.notes = run_folder::clean_up(checkpoints);
  const std::string& wanted = plan.checkpoint.resume;
  if (wanted == "auto") {
    choice.folder = newest_whole(checkpoints, choice.notes);
  } else if (wanted != "none") {
    choice.folder = fs::absolute(plan.resolve(wanted)).lexically_normal();
    if (!choice.folder.has_filename()) choice.folder = choice.folder.parent_path();
    if (const auto refusal = run_folder::why_no_checkpoint(choice.folder)) {
      throw Error(ErrorKind::kPlan, refusal->message, refusal->help);
    }
    choice.foreign = !run_folder::is_checkpoint(choice.folder);
    if (!choice.foreign) {
      run_folder::require_complete(choice.folder, run_folder::read_checkpoint_info(choice.folder));
    }
  }
  if (!choice.folder.empty()) choice.info = info_text(choice.folder, choice.foreign);
  return choice;
}

// Serialises rank 0's choice of a checkpoint as CBOR, because JSON text cannot contain paths that
// are not valid UTF-8.
std::string to_bytes(const Choice& choice) {
  const auto bytes = Json::to_cbor({{"folder", choice.folder.string()},
                                    {"info", choice.info},
                                    {"foreign", choice.foreign},
                                    {"notes", choice.notes}});
  return {bytes.begin(), bytes.end()};
}

Choice choice_from(const std::string& bytes) {
  const Json json = Json::from_cbor(bytes);
  return {json["folder"].get<std::string>(), json["info"].get<std::string>(),
          json["foreign"].get<bool>(), json["notes"].get<std::vector<std::string>>()};
}

// Returns the reason why this rank does not see the checkpoint that rank 0 has read. Returns an
// empty string if this rank sees the checkpoint.
std::string why_not_seen(const Choice& choice) {
  std::string reason;
  // Tries several times, because a network file system may show a new file to other machines late.
  constexpr int kTries = 50;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    try {
      if (info_text(choice.folder, choice.foreign) == choice.info) return {};
      reason = cat(choice.folder.string(), " on its machine belongs to another checkpoint");
    } catch (const std::exception& error) {
      reason = error.what();
    }
  }
  return reason;
}

// Throws Error(kPlan) with the first text in `verdicts` that is not empty. verdicts[r] is the error
// of rank r, or empty if rank r has no error. All ranks must pass equal vectors.
void throw_first(const std::vector<std::string>& verdicts, const std::string& what,
                 const std::string& help) {
  for (size_t rank = 0; rank < verdicts.size(); ++rank) {
    if (verdicts[rank].empty()) continue;
    throw Error(ErrorKind::kPlan, cat("rank ", rank, what, verdicts[rank]), help);
  }
}

// Returns the integer that the checkpoint's facts store under `key`; `otherwise` if they store no
// valid value.
int64_t stored_number(const ResumePoint& begin, const char* key, int64_t otherwise) {
  if (!begin.info.facts.is_object()) return otherwise;
  const auto found = begin.info.facts.find(key);
  if (found == begin.info.facts.end() || !found->is_number_integer()) return otherwise;
  const auto value = found->get<int64_t>();
  constexpr int64_t kMost = 1 << 30;  // largest train.global_batch_size that a plan may set
  return value > 0 && value <= kMost ? value : otherwise;
}

}  // namespace

ResumePoint choose_resume_point(const config::Plan& plan, const fs::path& checkpoints,
                                const runtime::World& world) {
  Choice choice;
  checkpoint::collective_step(
      world.group(), [] {},
      [&] {
        if (world.rank() == 0) choice = choose(plan, checkpoints);
      });
  choice = choice_from(world.group().broadcast_text(to_bytes(choice)));
  ResumePoint begin;
  begin.notes = choice.notes;
  begin.insisted = plan.checkpoint.resume != "auto";
  if (choice.folder.empty()) return begin;
  throw_first(
      world.group().all_gather_text(world.rank() == 0 ? std::string() : why_not_seen(choice)),
      cat(" does not see the checkpoint from which rank 0 resumes, ", choice.folder.string(), ": "),
      "all machines need the same checkpoint folder, on a file system that they share");
  begin.folder = choice.folder;
  begin.info = run_folder::parse_checkpoint_info(choice.info,
                                                 (choice.folder / run_folder::kInfoFile).string());
  begin.foreign = choice.foreign;
  if (begin.foreign) {
    begin.notes.push_back(
        cat(begin.folder.filename().string(), " is a checkpoint of another program at step ",
            begin.info.step,
            ": its weights and optimizer states are loaded, and the data begins where ",
            begin.info.step, " steps of this job would have ended"));
  }
  return begin;
}

config::Plan with_batch(config::Plan plan, const mesh::MeshSizes& sizes, const ResumePoint& begin) {
  int64_t& batch = plan.train.global_batch_size;
  if (batch > 0) return plan;
  batch = stored_number(begin, "train.global_batch_size",
                        config::batch_shape(plan, sizes.dp()).sequences);
  const config::BatchShape shape = config::batch_shape(plan, sizes.dp());
  if (shape.divides_over_ranks() && shape.divides_into_rounds()) return plan;
  const std::string rounds =
      shape.in_round == 1 ? "" : cat("pipeline rounds of ", shape.in_round, " ");
  throw Error(
      ErrorKind::kPlan,
      cat(begin.folder.string(), ": trained with ", batch, " sequences per step, but ", sizes.dp(),
          " data-parallel ranks cannot split these evenly into ", rounds, "micro-batches of ",
          plan.train.micro_batch_size,
          plan.train.micro_batch_size == 1 ? " sequence" : " sequences"),
      cat("choose a number of data-parallel ranks and a train.micro_batch_size whose product",
          shape.in_round == 1 ? "" : cat(", times ", shape.in_round, ","), " divides ", batch,
          "; or set train.global_batch_size, and continue with another batch by --resume ",
          begin.folder.string()));
}

void agree_on_facts(const Json& facts, const runtime::World& world) {
  const std::string own = dump_json(facts, -1);
  const std::string first = world.group().broadcast_text(own);
  std::vector<std::string> differ;
  if (own != first) {
    for (const auto& each : differences(Json::parse(first), facts)) differ.push_back(each.text());
  }
  throw_first(world.group().all_gather_text(join(differ, "; ")),
              " has other data or another model than rank 0 (\"there\"): ",
              "give all machines the same data and the same model");
}

namespace {

// If the data are a single source whose only change since the checkpoint is that tokens were added
// at the end, returns a description of this change. Otherwise returns an empty string.
std::string growth(const Json& there, const data::BatchReader& reader) {
  const auto tokens = there.find("data.tokens"), fingerprint = there.find("data.fingerprint");
  if (tokens == there.end() || fingerprint == there.end() || reader.sources().size() > 1) return {};
  const int64_t before = tokens->get<int64_t>(), now = reader.tokens();
  if (before < 1 || before >= now) return {};
  if (reader.sources().front().samples->fingerprint_of_first(before) != *fingerprint) return {};
  return cat("the data: ", format_count(before), " tokens in the checkpoint's run, and ",
             format_count(now - before),
             " more at their end in this job, which changes the order of the samples");
}

}  // namespace

void check_same_run(ResumePoint& begin, const Json& facts, const data::BatchReader& reader) {
  if (!begin.resumes()) return;
  if (begin.info.facts.is_null()) {
    begin.notes.push_back(cat(begin.folder.filename().string(),
                              " was written by an older am-run without a record of its data and "
                              "model: nothing was compared"));
    return;
  }
  std::vector<std::string> breaks;
  const std::string grown = growth(begin.info.facts, reader);
  for (const FactDifference& each : differences(begin.info.facts, facts)) {
    if (!grown.empty() && each.key == "data.tokens") continue;
    if (!grown.empty() && each.key == "data.fingerprint") {
      (begin.insisted ? begin.notes : breaks).push_back(grown);
    } else if (each.breaks && !begin.insisted) {
      breaks.push_back(each.text());
    } else {
      begin.notes.push_back(each.text());
    }
  }
  if (breaks.empty()) return;
  throw Error(
      ErrorKind::kPlan,
      cat(begin.folder.string(), ": the checkpoint belongs to a run with other settings:\n  ",
          join(breaks, "\n  ")),
      cat("--run-dir starts this run in another folder; --resume ", begin.folder.string(),
          " resumes nevertheless; --resume none starts a new run"));
}

int64_t first_sample(const ResumePoint& begin, const config::Plan& plan) {
  const auto& train = plan.train;
  const int64_t samples = begin.info.samples.value_or(begin.info.step * train.global_batch_size);
  const int64_t length = stored_number(begin, "train.seq_len", train.seq_len);
  if (length == train.seq_len || plan.data.has_examples()) return samples;
  // The sequence length has changed. Training continues with the first sequence that begins after
  // all tokens that earlier jobs have read.
  return samples / train.seq_len * length +
         ceil_div(samples % train.seq_len * length, train.seq_len);
}

std::vector<run_folder::JobStep> lineage_of(const ResumePoint& begin, const std::string& job) {
  std::vector<run_folder::JobStep> lineage = begin.info.lineage;
  if (lineage.empty() || lineage.back().job != job) lineage.push_back({job, begin.info.step});
  return lineage;
}

}  // namespace am::train
