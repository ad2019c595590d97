// Adds communication to a schedule that contains only computation: messages between ranks, and
// actions that gather and free the parameters of stages and reduce their gradients.
//
// If another rank needs the result of an action, a SEND follows the action. The RECV enters the
// receiver's list at the same moment of a simulated run. The lists of two ranks therefore contain
// the messages between these ranks in the same order, so the ranks cannot deadlock. UNSHARD and
// RESHARD gather and free a stage's parameters before and after their use; REDUCE_GRAD reduces the
// stage's gradients after its last backward. The resulting lists equal those that PyTorch's runtime
// executes.
//
//   with_communication(make_schedule({.schedule = "1f1b", .pp = 2, .microbatches = 2}))[1];
//   // 1UNSHARD 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1RESHARD
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// Maximum number of unfinished sends from one rank to another. At this limit, the sender waits for
// its oldest send before it starts the next send.
inline constexpr int kMostUnderWay = 2;

// For each rank: the actions in the order of execution, without bubbles.
using ExecutionLists = std::vector<std::vector<Slot>>;

// Returns the schedule with all communication. Throws Error(kPlan) if the order deadlocks; the
// message names the waiting ranks, at most eight, and the slot before which each waits.
ExecutionLists with_communication(const Schedule& schedule);

// The following functions are the steps of with_communication(). Each step also removes bubbles.
//
// Inserts UNSHARD and RESHARD so that only the next `active_stages` stages of the list are
// gathered: with three, a forward and a backward can run while a third stage is being gathered.
// Stages freed at one point are freed in ascending order.
std::vector<Slot> add_unshard_reshard(const std::vector<Slot>& list, size_t active_stages = 3);

// Inserts a REDUCE_GRAD for each stage after the stage's last B or W. `microbatches`: number of
// micro-batches; a stage has one B or one W for each micro-batch.
std::vector<Slot> add_reduce_grad(const std::vector<Slot>& list, int64_t microbatches);

// Inserts sends and receives between ranks; neighbouring stages on one rank need none. `lists` may
// already contain UNSHARD, RESHARD and REDUCE_GRAD. `owners`: Schedule::owners. Throws like
// with_communication().
ExecutionLists add_send_recv(const ExecutionLists& lists, const std::vector<int64_t>& owners,
                             int64_t microbatches);

}  // namespace am::pipeline
