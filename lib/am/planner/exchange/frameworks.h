// The frameworks, one file each; registry.cpp puts them in order.
#pragma once

#include "am/planner/exchange/exchange.h"

namespace am::planner {

extern const Framework kTorchtitan;
extern const Framework kMegatron;
extern const Framework kNemoAutomodel;
extern const Framework kAccelerate;
extern const Framework kDeepspeed;

}  // namespace am::planner
