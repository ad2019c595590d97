#include "am/inspect/worker_setup.h"

#include "am/inspect/attached.h"

namespace am::inspect {

Json to_json(const WorkerSetup& setup) {
  Json overrides = Json::array();
  for (const config::Override& item : setup.overrides) overrides.push_back(item.text);
  Json json = session_request(setup.session);
  json["plan"] = setup.plan.string();
  json["overrides"] = overrides;
  json["allow_plugins"] = setup.plugins == config::Plugins::kAllowed;
  return json;
}

WorkerSetup worker_setup(const Json& json) {
  WorkerSetup setup;
  setup.plan = json.at("plan").get<std::string>();
  for (const Json& item : json.at("overrides"))
    setup.overrides.push_back({item.get<std::string>()});
  if (json.at("allow_plugins").get<bool>()) setup.plugins = config::Plugins::kAllowed;
  setup.session.style.color = json.at("color").get<bool>();
  setup.session.style.unicode = json.at("unicode").get<bool>();
  setup.session.style.width = json.at("width").get<int>();
  setup.session.style.height = json.value("height", setup.session.style.height);
  setup.session.style.window = json.value("window", false);
  setup.session.for_programs = json.at("for_programs").get<bool>();
  setup.session.force = json.at("force").get<bool>();
  setup.session.tokenizer = json.at("tokenizer").get<std::string>();
  return setup;
}

}  // namespace am::inspect
