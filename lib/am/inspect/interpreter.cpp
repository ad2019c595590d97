#include "am/inspect/interpreter.h"

#include <utility>

namespace am::inspect {

SessionFacts facts_of(const Session& session) {
  SessionFacts facts;
  facts.title = session.view().title();
  for (const HeldParameter& parameter : session.view().parameters()) {
    facts.parameters.push_back(parameter.name);
  }
  facts.modules = module_names(session.view().parameters());
  facts.note = session.view().note();
  return facts;
}

SessionLost::SessionLost(const std::string& report)
    : Error(ErrorKind::kRuntime, report.substr(0, report.find('\n'))), report_(report) {}

LocalInterpreter::LocalInterpreter(Session session)
    : session_(std::move(session)), facts_(facts_of(session_)) {}

Outcome LocalInterpreter::run(const std::string& input) { return execute(session_, input); }

}  // namespace am::inspect
