// Adds communication to a compute-only schedule: sends, receives, and the stages' parameters.
//
// Each action whose result another rank needs gets a SEND, and the receiver's list gets the RECV at
// the time of the send, so that both sides of every pair of ranks issue their messages in the same
// order and cannot deadlock. UNSHARD and RESHARD gather and free a stage's parameters around its
// use; REDUCE_GRAD reduces its gradients after its last backward. The result equals what PyTorch's
// runtime executes.
//
//   with_communication(make_schedule({.schedule = "1f1b", .pp = 2, .microbatches = 2}))[1];
//   // 1UNSHARD 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1RESHARD
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// Maximum number of messages in progress per channel. Before it sends another one, the sender waits
// for the oldest.
inline constexpr int kMostUnderWay = 2;

// One list per rank, without bubbles.
using ExecutionLists = std::vector<std::vector<Slot>>;

// Adds all communication. Throws Error(kPlan) if the order deadlocks; the message names each
// waiting rank's position.
ExecutionLists with_communication(const Schedule& schedule);

// Individual steps of with_communication(), on one rank's list; bubbles are removed.
//
// Gathers the next `active_stages` stages that the list uses, each before its first use, and frees
// the others: with three, a forward and a backward can run while another stage is being gathered.
// Stages that are freed at the same point are freed in ascending order.
std::vector<Slot> add_unshard_reshard(const std::vector<Slot>& list, size_t active_stages = 3);

// Inserts REDUCE_GRAD after the last of each stage's `microbatches` backwards.
std::vector<Slot> add_reduce_grad(const std::vector<Slot>& list, int64_t microbatches);

// Inserts messages between ranks; neighbouring stages on one rank need none. `lists` may contain
// the actions of the other steps. Throws as with_communication().
ExecutionLists add_send_recv(const ExecutionLists& lists, const std::vector<int64_t>& owners,
                             int64_t microbatches);

}  // namespace am::pipeline
