// Executes a pipeline schedule: this rank's list of actions, as am-plan schedule draws it.
//
//   Pipeline pipeline(pipeline::make_schedule(shape), stages, mesh, hidden);
//   at::Tensor loss_sum = pipeline.run(batches, {.divisor = labels_in_global_batch});
//
// Stages compute (F, B, I, W); hidden states go down and their gradients up in messages between two
// ranks (SEND, RECV), or by hand where one rank has both stages; a stage's parameters are gathered,
// freed and reduced where the list says so (UNSHARD, RESHARD, REDUCE_GRAD), and its units do
// neither by themselves.
//
// Note [A pipeline progresses]: the lists of all ranks come from one simulated run
// (am/pipeline/communication.h), in which a message is sent and received at one moment, and a
// channel's messages have one order on both ends. Posting never waits. A rank waits for a message
// that it needs now, or for one that it sent before its last ones on that channel: each was sent at
// an earlier moment of the run, and nothing before that moment waits for what comes after it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "am/parallel/pass_options.h"
#include "am/parallel/pp/stage.h"
#include "am/pipeline/communication.h"
#include "am/runtime/channel.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// What travels between stages: [B, t / sequence_parts, D], contiguous, of the t positions that the
// rank computes of a sequence.
struct HiddenForm {
  int64_t width = 0;           // D
  int64_t sequence_parts = 1;  // shards of a sequence under sequence parallelism
  at::ScalarType dtype = at::kFloat;
};

class Pipeline {
 public:
  // Collective in the group "pp". `stages`: this rank's, by their number in the pipeline; their
  // models and the mesh must outlive this. `tied`: the parameter that the first stage and the last
  // have a copy of each; empty: none.
  Pipeline(const pipeline::Schedule& schedule, std::map<int, Stage> stages,
           const runtime::DeviceMesh& mesh, const HiddenForm& hidden, std::string tied = {});

  // Forward and backward of all micro-batches, in rounds of the schedule's; gradients are reduced
  // in the last one, and both copies of what is tied get the sum of theirs. The sum of the label
  // cross-entropies of the last stage: [1], float64, zero on ranks that do not have it. Throws
  // Error(kPlan) where the micro-batches are not whole rounds; an error inside an action names it.
  at::Tensor run(MicroBatches& batches, const PassOptions& options);
  // The same sum without a graph.
  at::Tensor run_forward(MicroBatches& batches);

  const std::map<int, Stage>& stages() const { return stages_; }
  // Of a round.
  int64_t micro_batches() const { return schedule_.microbatches; }
  // Without contents: what goes from stage to stage for these ids.
  at::Tensor hidden_like(const at::Tensor& ids_BT) const;

  // False: a stage's gradients are reduced after each of its backwards, not at REDUCE_GRAD.
  bool defers_gradient_sync = true;
  // Told of each action when it is over.
  std::function<void(const pipeline::Action&)> on_action;

 private:
  // A stage, and a micro-batch of the round.
  using Place = std::pair<int, int64_t>;
  struct Message {
    runtime::Pending pending;  // inactive: handed over on this rank
    at::Tensor tensor;
  };
  enum Way : size_t { kDown, kUp };  // hidden states; their gradients

  void run_round();
  void perform(const pipeline::Action& action);
  void forward(Stage& stage, const pipeline::Action& action);
  void sync_now(DataParallel& data_parallel) const;
  // What an action made for the next stage (kDown) or the one before (kUp), if there is one: it is
  // there, or waits to be sent.
  void hand_on(Way way, const pipeline::Action& action, const at::Tensor& made);
  const MicroBatch& batch(int64_t m);
  void say(const char* phase) const;
  // This rank's part of the tied parameter's gradient in a stage; undefined: it does not train, or
  // has none yet.
  at::Tensor tied_gradient(int stage) const;
  void sum_tied_gradients();
  // The action's own input: waits for its arrival. Undefined where the pipeline begins.
  at::Tensor take(Way way, const pipeline::Action& action);
  void send(Way way, const pipeline::Action& action);
  void receive(Way way, const pipeline::Action& action);

  // The stage that has this one's results; -1: none.
  int neighbour(Way way, const pipeline::Action& action) const;
  int last_stage() const { return static_cast<int>(schedule_.stages()) - 1; }
  int64_t owner(int stage) const { return schedule_.owners.at(static_cast<size_t>(stage)); }

  pipeline::Schedule schedule_;
  std::vector<pipeline::Slot> list_;  // this rank's
  std::map<int, Stage> stages_;
  const runtime::DeviceMesh& mesh_;
  HiddenForm hidden_;
  std::string tied_;
  runtime::Channels channels_;

  // Of the pass under way.
  MicroBatches* batches_ = nullptr;
  int64_t first_ = 0;  // micro-batch of the round
  PassOptions options_;
  bool last_round_ = false;
  at::Tensor loss_;
  std::map<int64_t, MicroBatch> read_;  // of the round, until the rank's last stage is through
  std::array<std::map<Place, Message>, 2> arriving_;    // by way, and where they are wanted
  std::array<std::map<Place, at::Tensor>, 2> leaving_;  // by way, and where they were made
  // Sent, and left alone until they have gone.
  std::map<runtime::Hop, std::deque<Message>> under_way_;
};

}  // namespace am::parallel
