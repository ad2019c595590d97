// An error that every rank of a job meets by itself, said once: 1,024 ranks that read the same
// wrong plan have one thing to say.
#pragma once

#include "am/launch/environment/environment.h"

namespace am_run {

// Collective, as far as ranks are there: called by a rank that found the plan invalid, before it
// joined. False on a rank other than 0 when rank 0 found so too, and so says it. Waits a few
// seconds for the others at most.
bool speaks_for_all(const am::launch::RankEnvironment& here);

}  // namespace am_run
