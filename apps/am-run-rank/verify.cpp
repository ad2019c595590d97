// am-run PLAN --verify-layout: scales the job down to a small model on a small mesh
// (scaled_down_job.h), trains this model under the scaled-down layout and on one rank, and compares
// the results.
#include <optional>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/job/scaled_down_job.h"
#include "am/mesh/sizes_json.h"
#include "am/term/style.h"
#include "am/train/verify_layout.h"
#include "job/plan_file.h"
#include "modes.h"

namespace am_run {

namespace {

using namespace am;

Json to_json(const job::ScaledDownJob& proxy, const train::LayoutVerdict& verdict) {
  Json changes = Json::object();
  for (const auto& change : proxy.changes) changes[change.key] = {change.from, change.to};
  Json json = Json::object();
  json["ok"] = !verdict.divergence;
  json["proxy"] = {{"world_size", proxy.mesh.world_size()},
                   {"mesh", mesh::to_json(proxy.mesh)},
                   {"layers", proxy.model.num_hidden_layers},
                   {"changes", std::move(changes)}};
  json["steps"] = verdict.steps;
  json["largest_difference"] = verdict.largest;
  json["parting"] = nullptr;
  if (const auto& divergence = verdict.divergence) {
    json["parting"] = {{"step", divergence->step}, {"what", divergence->what},
                       {"name", divergence->name}, {"stage", divergence->stage},
                       {"rank", divergence->rank}, {"difference", divergence->difference}};
  }
  return json;
}

std::string to_text(const job::ScaledDownJob& proxy, const train::LayoutVerdict& verdict,
                    const term::Style& style) {
  std::string text = cat("on ", proxy.mesh.world_size(), " ranks in this process, in float64\n");
  for (const auto& change : proxy.changes) {
    text += cat("  ", change.key, ": ", change.to, " instead of ", change.from, "\n");
  }
  if (const auto& divergence = verdict.divergence) {
    const std::string whose = divergence->name.empty() ? "" : " of " + divergence->name;
    return cat(text, "\n", style.paint(term::Role::kError, "differs"), " in step ",
               divergence->step, ": the ", divergence->what, whose, ", by ",
               format_scientific(divergence->difference, 1), " of its norm, most on rank ",
               divergence->rank, " (stage ", divergence->stage, ")\n");
  }
  return cat(text, "\n", style.paint(term::Role::kAccent, "ok"), ": ", verdict.steps,
             " steps agree with those of one rank; the largest difference is ",
             format_scientific(verdict.largest, 1), "\n");
}

}  // namespace

int run_verify(const Options& options) {
  Diagnostics found;
  std::optional<job::ScaledDownJob> proxy;
  if (const auto job = open_job(options, 0, nullptr, found)) {
    proxy = job::scaled_down(job->plan, job->model, job->layout.mesh.sizes(), found);
  }
  found.sort();
  am_apps::print_diagnostics(found, options.output);
  if (!proxy) {
    if (options.output.json) am_apps::print(am_apps::failure(found));
    return am_apps::kInvalid;
  }
  std::optional<fault::Planted> planted;
  if (!options.fault.empty()) planted.emplace(fault::find(options.fault).value());
  train::VerifyOptions verify;
  if (options.steps > 0) verify.steps = options.steps;
  const auto verdict = train::verify_layout(proxy->plan, proxy->model, verify);
  if (options.output.json) {
    am_apps::print(to_json(*proxy, verdict));
  } else {
    am_apps::print(to_text(*proxy, verdict, options.output.out));
  }
  return verdict.divergence ? am_apps::kInvalid : am_apps::kFine;
}

}  // namespace am_run
