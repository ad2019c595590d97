// From what ranks compute to what they execute: sends, receives, and the stages' own parameters.
//
// A compute-only order says nothing about messages. Here every action that another rank waits for
// gets its SEND, and the receiver's list gets the RECV at the moment of the send, so that the two
// sides of every pair of ranks name their messages in one order and cannot wait for each other.
// UNSHARD and RESHARD gather and free a stage's parameters around its use; REDUCE_GRAD reduces its
// gradients after the last of its backwards. All of it equals what PyTorch's runtime executes.
//
//   with_communication(make_schedule({.schedule = "1f1b", .pp = 2, .microbatches = 2}))[1]
//   // 1UNSHARD 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1RESHARD
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// Messages in one channel that their sender keeps until they have gone: before one more it waits
// for the oldest.
inline constexpr int kMostUnderWay = 2;

// Lists without bubbles, by rank.
using ExecutionLists = std::vector<std::vector<Slot>>;

// All of it. Throws Error(kPlan) when the order makes ranks wait for each other for ever, and names
// where each of them stands.
ExecutionLists with_communication(const Schedule& schedule);

// The steps of with_communication(), on one rank's list; bubbles are dropped.
//
// Gathers the next `active_stages` stages that the list uses, each before its first use, and frees
// the others: with three, a forward and a backward run while another stage is on its way. Stages
// that are freed at one moment are so in ascending order.
std::vector<Slot> add_unshard_reshard(const std::vector<Slot>& list, size_t active_stages = 3);

// REDUCE_GRAD behind the backward of each stage that is its last of `microbatches`.
std::vector<Slot> add_reduce_grad(const std::vector<Slot>& list, int64_t microbatches);

// Messages between ranks; stages that neighbour on one rank need none. `lists` may have the actions
// of the other steps. Throws as with_communication().
ExecutionLists add_send_recv(const ExecutionLists& lists, const std::vector<int64_t>& owners,
                             int64_t microbatches);

}  // namespace am::pipeline
