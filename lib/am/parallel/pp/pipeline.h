// Executes a pipeline schedule: this rank's list of actions, which `am-plan schedule` draws.
//
//   Pipeline pipeline(pipeline::make_schedule(shape), stages, mesh, hidden);
//   at::Tensor loss_sum = pipeline.run(batches, {.divisor = labels_in_global_batch});
//
// F (forward), B (backward), I (gradients of inputs) and W (gradients of weights) compute on a
// stage. SEND and RECV pass hidden states down the pipeline and gradients up the pipeline, between
// two ranks; between two stages of one rank, tensors are passed directly. UNSHARD, RESHARD and
// REDUCE_GRAD gather and free a stage's parameters and reduce its gradients. Units with
// reshard_after_forward are also freed and gathered by their hooks. Without defers_gradient_sync,
// gradients are reduced after each backward instead of by REDUCE_GRAD. A round is one run of the
// list; a pass over many micro-batches needs several rounds.
//
// A model without pipeline parallelism is a pipeline of one stage with the list `0F0 0B0`: the
// forward and the backward of stage 0 on micro-batch 0 of the round, one round per micro-batch. Its
// units are gathered, freed and reduced by their hooks, without actions.
//
// Note [A pipeline progresses]: the lists of all ranks come from one simulated run
// (am/pipeline/communication.h), in which a message is sent and received at the same moment, and
// both ends of a channel see its messages in the same order. Posting a send or a receive never
// waits. A rank waits only for a message that it needs now, for the oldest send if kMostUnderWay
// sends are pending on a channel, and at the end of a round for its pending sends. In the simulated
// run, the awaited message passed at an earlier moment, and no action before that moment depends on
// a later action. The wait therefore ends.
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

#include "am/parallel/micro_batches.h"
#include "am/parallel/pp/stage.h"
#include "am/pipeline/communication.h"
#include "am/runtime/channel.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// Shape and dtype of the hidden states between stages: contiguous [B, t / sequence_parts, D]. A
// micro-batch has B sequences, and the rank computes t positions of each sequence.
struct HiddenForm {
  int64_t width = 0;  // D, the hidden size
  // Number of tp shards of each sequence under sequence parallelism; otherwise 1.
  int64_t sequence_parts = 1;
  at::ScalarType dtype = at::kFloat;
};

class Pipeline {
 public:
  // Collective in the group "pp". `stages`: this rank's stages, by their number in the pipeline.
  // The stages' models and the mesh must outlive the pipeline. `tied`: name of the weight that the
  // first and the last stage share, each with a copy; empty: no shared weight.
  Pipeline(const pipeline::Schedule& schedule, std::map<int, Stage> stages,
           const runtime::DeviceMesh& mesh, const HiddenForm& hidden, std::string tied = {});

  // Runs forward and backward of all micro-batches, in rounds of micro_batches() micro-batches.
  // With options.reduce, the last round reduces the gradients, and the gradients of the two copies
  // of a tied weight are both set to their sum. Returns the sum of the labels' cross-entropies,
  // [1], float64; zero on ranks without the last stage. Throws Error(kPlan) if the micro-batches do
  // not fill whole rounds. With several stages, the message of an error inside an action names the
  // action.
  at::Tensor run(MicroBatches& batches, const PassOptions& options);
  // Runs only forward, without grad mode. Returns the sum of the labels' cross-entropies, like
  // run().
  at::Tensor run_forward(MicroBatches& batches);

  const std::map<int, Stage>& stages() const { return stages_; }
  bool has_one_stage() const { return schedule_.stages() == 1; }
  // Returns the number of micro-batches per round of run().
  int64_t micro_batches() const { return schedule_.microbatches; }
  // Returns an uninitialised tensor with the shape and dtype of the hidden states for these ids.
  at::Tensor hidden_like(const at::Tensor& ids_BT) const;

  // Whether gradients are reduced only once: by REDUCE_GRAD or, with a single stage, in the last
  // round. If false, each backward pass of a stage reduces its gradients.
  bool defers_gradient_sync = true;
  // Called after each action.
  std::function<void(const pipeline::Action&)> on_action;

 private:
  // Number of a stage, and number of a micro-batch within the round.
  using Place = std::pair<int, int64_t>;
  struct Message {
    runtime::Pending pending;  // inactive if the tensor was passed between two stages of this rank
    at::Tensor tensor;
  };
  // kDown: hidden states, to the next stage. kUp: gradients, to the previous stage.
  enum Way : size_t { kDown, kUp };

  void run_round();
  void perform(const pipeline::Action& action);
  void forward(Stage& stage, const pipeline::Action& action);
  // Reduces a stage's gradients after a backward if their reduction is not deferred.
  void sync_now(DataParallel& data_parallel) const;
  // Passes an action's result to the next stage (kDown) or the previous stage (kUp), if any:
  // directly if this rank holds that stage, otherwise by storing the result for send().
  void hand_on(Way way, const pipeline::Action& action, const at::Tensor& made);
  // Returns micro-batch `m` of the round, from read_ or, if it is not there, from batches_.
  const MicroBatch& batch(int64_t m);
  void say(const char* phase) const;
  // Returns this rank's shard of the gradient of the tied parameter's copy in `stage`. Undefined if
  // no parameter is tied, if this rank does not hold the stage, if the parameter is frozen, or if
  // the copy has no gradient yet.
  at::Tensor tied_gradient(int stage) const;
  void sum_tied_gradients();
  // Waits until the action's input has arrived, and returns the input; undefined for the first
  // stage's forward and the last stage's backward.
  at::Tensor take(Way way, const pipeline::Action& action);
  at::Tensor hidden_of(at::IntArrayRef shape) const;
  void send(Way way, const pipeline::Action& action);
  void receive(Way way, const pipeline::Action& action);

  // Returns the stage that receives this action's result, or -1 if there is none.
  int neighbour(Way way, const pipeline::Action& action) const;
  int last_stage() const { return static_cast<int>(schedule_.stages()) - 1; }
  int64_t owner(int stage) const { return schedule_.owners.at(static_cast<size_t>(stage)); }

  pipeline::Schedule schedule_;
  std::vector<pipeline::Slot> list_;  // this rank's actions
  std::map<int, Stage> stages_;
  const runtime::DeviceMesh& mesh_;
  HiddenForm hidden_;
  std::string tied_;
  runtime::Channels channels_;

  // Whether the last run() in grad mode has set the gradients of both copies of the tied weight to
  // their sum.
  bool tied_is_summed_ = false;

  // State of the pass that is running.
  MicroBatches* batches_ = nullptr;
  int64_t first_ = 0;  // index of the first micro-batch of the round
  PassOptions options_;
  bool last_round_ = false;
  at::Tensor loss_;
  // Micro-batches of the round that have been read, by number. The forward of this rank's last
  // stage removes its micro-batch.
  std::map<int64_t, MicroBatch> read_;
  // Inputs of this rank's stages, by direction (Way), then by receiving stage and micro-batch.
  std::array<std::map<Place, Message>, 2> arriving_;
  // Results to be sent, by direction (Way), then by sending stage and micro-batch.
  std::array<std::map<Place, at::Tensor>, 2> leaving_;
  // Shapes of the hidden states sent in this round, by sending stage and micro-batch.
  std::map<Place, std::vector<int64_t>> sent_;
  // Messages that are being sent, whose tensors must stay unchanged.
  std::map<runtime::Hop, std::deque<Message>> under_way_;
};

}  // namespace am::parallel
