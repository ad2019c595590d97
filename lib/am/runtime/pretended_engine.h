// The engine of World::pretended: collectives that are over at once.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

std::shared_ptr<Engine> pretended_engine();

}  // namespace am::runtime
