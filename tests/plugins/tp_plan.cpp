// Tensor-parallel plans in a shared library, as `tp_plan = "tp_plan.so:good"` names them.

extern "C" {

const char* good() {
  return "\"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\"\n"
         "\"model.layers.*.mlp.down_proj\" = \"rowwise\"\n";
}

const char* no_toml() { return "this is no TOML"; }

const char* nothing() { return nullptr; }
}
