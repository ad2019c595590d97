#include "am/run_folder/step_folders.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/run_folder/data_files.h"

namespace am::run_folder {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDroppedSuffix = ".dropped";
constexpr const char* kOldSuffix = ".old";
constexpr const char* kSupersededSuffix = ".superseded";

fs::path with_suffix(const fs::path& folder, const std::string& suffix) {
  return folder.string() + suffix;
}

// Deletes the checkpoint folder `from`. `step`: the path .../step-N of the checkpoint. Renames
// `from` to step-N.dropped first, so that clean_up() recognises an incompletely deleted folder.
void drop(const fs::path& from, const fs::path& step) {
  const fs::path dropped = with_suffix(step, kDroppedSuffix);
  fs::remove_all(dropped);
  fs::rename(from, dropped);
  sync_folder(step.parent_path());
  fs::remove_all(dropped);
}

// Calls drop() and ignores its errors.
void try_to_drop(const fs::path& from, const fs::path& step) {
  try {
    drop(from, step);
  } catch (const fs::filesystem_error&) {
  } catch (const Error&) {
  }
}

// Exchanges the folders at two paths atomically. Returns false if the kernel or the file system
// does not support the exchange. Throws filesystem_error if the exchange fails for another reason.
bool exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  const int code = errno;
  if (code == EINVAL || code == ENOSYS || code == ENOTSUP) return false;
  throw fs::filesystem_error("cannot exchange", a, b,
                             std::error_code(code, std::generic_category()));
}

// Returns the paths of all entries named step-N plus `suffix`, without the suffix: for example
// checkpoints/step-9 for the entry step-9.tmp.
std::vector<fs::path> steps_with_suffix(const fs::path& checkpoints, const std::string& suffix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator entry(checkpoints, ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!ends_with(name, suffix)) continue;
    const std::string step = name.substr(0, name.size() - suffix.size());
    if (checkpoint_step(step)) found.push_back(checkpoints / step);
  }
  return found;
}

void remove_left_over(const fs::path& checkpoints, const std::string& suffix,
                      std::vector<std::string>& done) {
  for (const fs::path& step : steps_with_suffix(checkpoints, suffix)) {
    std::error_code failed;
    const fs::path left = with_suffix(step, suffix);
    fs::remove_all(left, failed);
    done.push_back(
        failed ? cat("cannot remove ", left.string(), ": ", failed.message())
               : cat("removed ", left.filename().string(), ", left by a job that was killed"));
  }
}

// Handles the folders step-N.old of a job that was killed in publish(). If step-N exists, deletes
// step-N.old. Otherwise the job was killed between the two renames of publish(): a complete
// step-N.old is then renamed back to step-N.
void restore_old(const fs::path& checkpoints, std::vector<std::string>& done) {
  for (const fs::path& step : steps_with_suffix(checkpoints, kOldSuffix)) {
    const fs::path old = with_suffix(step, kOldSuffix);
    std::error_code failed;
    if (fs::exists(step, failed)) {
      try_to_drop(old, step);
    } else if (!why_incomplete(old)) {
      fs::rename(old, step);
      done.push_back(cat("restored ", step.filename().string(), " from ", old.filename().string(),
                         ": the job was killed while it replaced this checkpoint"));
    }
  }
}

}  // namespace

std::optional<std::string> why_incomplete(const fs::path& folder) {
  try {
    require_complete(folder, read_checkpoint_info(folder));
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  } catch (const fs::filesystem_error& error) {
    return cat(error.path1().string(), ": ", error.code().message());
  }
}

NewestCheckpoint newest_complete(const fs::path& checkpoints) {
  NewestCheckpoint newest;
  const auto all = list_checkpoints(checkpoints);
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    const auto reason = why_incomplete(each->path);
    if (!reason) {
      newest.found = *each;
      break;
    }
    newest.skipped.push_back(cat(each->path.filename().string(), " is incomplete: ", *reason));
  }
  return newest;
}

std::optional<int64_t> newest_of_job(const fs::path& checkpoints, const std::string& job) {
  const auto all = list_checkpoints(checkpoints);
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    if (why_incomplete(each->path)) continue;
    const CheckpointInfo info = read_checkpoint_info(each->path);
    if (!info.lineage.empty() && info.lineage.back().job == job) return each->step;
  }
  return std::nullopt;
}

void publish(const fs::path& partial, const fs::path& folder) {
  if (!fs::exists(folder)) {
    fs::rename(partial, folder);
    sync_folder(folder.parent_path());
    return;
  }
  fs::path replaced = partial;
  if (!exchange(partial, folder)) {
    replaced = with_suffix(folder, kOldSuffix);
    fs::remove_all(replaced);
    fs::rename(folder, replaced);
    fs::rename(partial, folder);
  }
  sync_folder(folder.parent_path());
  try_to_drop(replaced, folder);
}

std::vector<std::string> clean_up(const fs::path& checkpoints) {
  std::vector<std::string> done;
  remove_left_over(checkpoints, kDroppedSuffix, done);
  restore_old(checkpoints, done);
  remove_left_over(checkpoints, kPartialSuffix, done);
  return done;
}

std::vector<std::string> set_aside(const fs::path& checkpoints, int64_t step) {
  std::vector<std::string> names;
  for (const auto& each : list_checkpoints(checkpoints)) {
    if (each.step <= step) continue;
    fs::path aside = with_suffix(each.path, kSupersededSuffix);
    for (int number = 2; fs::exists(aside); ++number) {
      aside = with_suffix(each.path, cat(kSupersededSuffix, ".", number));
    }
    fs::rename(each.path, aside);
    names.push_back(aside.filename().string());
  }
  if (!names.empty()) sync_folder(checkpoints);
  return names;
}

bool is_ancestor(const CheckpointInfo& info, const std::vector<JobStep>& lineage) {
  if (info.lineage.empty()) return false;
  for (size_t i = 0; i < lineage.size(); ++i) {
    if (lineage[i].job != info.lineage.back().job) continue;
    return i + 1 == lineage.size() || info.step <= lineage[i + 1].from_step;
  }
  return false;
}

namespace {

struct OwnCheckpoint {
  fs::path folder;
  int64_t step = 0;
  std::optional<double> loss;  // validation loss
  std::string data;            // identifies the validation data
};

// Returns the checkpoints of the training history `lineage`, by ascending step. Leaves out a
// checkpoint whose checkpoint.json cannot be read, because another job may have written it.
std::vector<OwnCheckpoint> own_checkpoints(const fs::path& checkpoints,
                                           const std::vector<JobStep>& lineage) {
  std::vector<OwnCheckpoint> own;
  for (const auto& each : list_checkpoints(checkpoints)) {
    try {
      const CheckpointInfo info = read_checkpoint_info(each.path);
      if (!is_ancestor(info, lineage)) continue;
      const auto validated = info.validated.value_or(CheckpointInfo::Validated{});
      own.push_back({each.path, each.step, validated.loss, validated.data});
    } catch (const Error&) {
      continue;
    }
  }
  return own;
}

// Returns the indices of at most `count` checkpoints with the lowest losses, the lowest first.
// Considers only checkpoints with the same validation data as the last checkpoint that has a loss.
std::vector<size_t> best_of(const std::vector<OwnCheckpoint>& all, size_t count) {
  std::vector<size_t> best;
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i].loss && (best.empty() || all[i].data == all[best.front()].data)) best.push_back(i);
  }
  std::reverse(best.begin(), best.end());
  std::stable_sort(best.begin(), best.end(),
                   [&](size_t a, size_t b) { return *all[a].loss < *all[b].loss; });
  best.resize(std::min(best.size(), count));
  return best;
}

// Makes or replaces the link `name` in the run folder; removes the link if `target` is empty. Does
// nothing if `name` exists and is not a link. Ignores errors.
void make_link(const RunFolder& run, const HeldFolder& held, const char* name,
               const fs::path& target) {
  const fs::path place = held.opened();
  const fs::path link = place / name;
  const fs::path fresh = place / cat(".", name, ".new");
  std::error_code failed;
  if (fs::exists(fs::symlink_status(link, failed)) && !fs::is_symlink(link, failed)) return;
  if (target.empty()) {
    fs::remove(link, failed);
    return;
  }
  const fs::path from_run = target.lexically_proximate(run.root());
  fs::remove(fresh, failed);
  fs::create_directory_symlink(from_run, fresh, failed);
  if (!failed) fs::rename(fresh, link, failed);
}

}  // namespace

void drop_old(const fs::path& checkpoints, const KeptCheckpoints& kept,
              const std::vector<JobStep>& lineage) {
  if (kept.newest == 0) return;
  const std::vector<OwnCheckpoint> own = own_checkpoints(checkpoints, lineage);
  const std::vector<size_t> best = best_of(own, static_cast<size_t>(kept.best));
  for (size_t i = 0; i + static_cast<size_t>(kept.newest) < own.size(); ++i) {
    const bool stays = (kept.every > 0 && own[i].step % kept.every == 0) ||
                       std::find(best.begin(), best.end(), i) != best.end();
    if (!stays) try_to_drop(own[i].folder, own[i].folder);
  }
}

void link_checkpoints(const RunFolder& run, const HeldFolder& held, const fs::path& checkpoints,
                      const std::vector<JobStep>& lineage) {
  const std::vector<OwnCheckpoint> own = own_checkpoints(checkpoints, lineage);
  const std::vector<size_t> best = best_of(own, 1);
  make_link(run, held, "latest", own.empty() ? fs::path() : own.back().folder);
  make_link(run, held, "best", best.empty() ? fs::path() : own[best.front()].folder);
}

}  // namespace am::run_folder
