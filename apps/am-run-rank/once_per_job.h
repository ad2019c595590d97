// Makes a job print an error only once, although each rank finds it by itself: 1,024 ranks that
// read the same invalid plan report it one time.
#pragma once

#include "am/launch/environment/environment.h"

namespace am_run {

// Called by a rank that found the plan invalid, before it joined the job. Returns true if this rank
// must print the error: always on rank 0; on other ranks unless rank 0 has the same finding. Waits
// at most a few seconds for the other ranks, which need not all call it.
bool prints_for_all(const am::launch::RankEnvironment& here);

}  // namespace am_run
