// am-plan's commands: each takes its options and gives the exit status. One file a command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "common/output.h"

namespace am_plan {

using am_apps::Output;

// What every command on plans takes.
struct PlanOptions {
  std::vector<std::string> files;  // one, but for `check`
  std::vector<am::config::Override> overrides;
  int64_t world_size = 0;  // 0: the plan's
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  std::string dialect;  // of `check`: whose rules; empty: our own
};

struct ModelOptions {
  std::string config;
  int64_t seq_len = 0;  // of the FLOPs; 0: 4096, or the model's limit when that is less
};

struct ShardOptions {
  PlanOptions plan;
  std::optional<int64_t> rank;
  std::string glob = "*";
};

struct MemoryOptions {
  PlanOptions plan;
  std::optional<int64_t> rank;
};

struct ScheduleOptions {
  PlanOptions plan;
  std::string from_csv;  // empty: the plan's own schedule
  std::string svg;       // files to write; empty: none
  std::string trace;
  std::string csv;
};

struct CalibrateOptions {
  std::string rows;       // empty: the built-in runs
  std::string output;     // empty: nothing is written
  bool evaluate = false;  // no fit
};

struct ExportOptions {
  PlanOptions plan;
  std::string framework;
  std::string output;  // empty: stdout
  bool flags = false;  // the command line in the place of a file
};

struct ImportOptions {
  std::string file;
  std::string framework;
  std::string model;   // model.path of the plan; empty: the file's, or "."
  std::string output;  // empty: stdout
  bool force = false;  // what cannot be said in a plan is left out
};

struct DiffOptions {
  PlanOptions plan;  // what holds for both
  std::string a;
  std::string b;
};

struct ReportOptions {
  PlanOptions plan;
  std::string output = "plan.html";
};

struct SearchOptions {
  std::string model;
  int64_t gpus = 0;
  std::string gpu = "h100-sxm";
  int64_t seq_len = 0;            // 0: 4096, or the model's limit when that is less
  int64_t global_batch_size = 0;  // 0: planner::default_batch_size
  int64_t top = 10;
  std::string strategy = "fsdp2";
  std::string implementation = "automesh";
  std::string calibration;
  std::string write;
  bool runnable = false;
};

int run_check(const PlanOptions& options, const Output& output);
int run_show(const PlanOptions& options, const Output& output);
int run_model(const ModelOptions& options, const Output& output);
int run_shards(const ShardOptions& options, const Output& output);
int run_tp(const PlanOptions& options, const Output& output);
int run_memory(const MemoryOptions& options, const Output& output);
int run_cost(const PlanOptions& options, const Output& output);
int run_report(const ReportOptions& options, const Output& output);
int run_search(const SearchOptions& options, const Output& output);
int run_calibrate(const CalibrateOptions& options, const Output& output);
int run_schedule(const ScheduleOptions& options, const Output& output);
int run_export(const ExportOptions& options, const Output& output);
int run_import(const ImportOptions& options, const Output& output);
int run_diff(const DiffOptions& options, const Output& output);
int run_rules(const Output& output);
int run_explain(const std::string& rule, const Output& output);
int run_schema(bool markdown, const Output& output);

}  // namespace am_plan
