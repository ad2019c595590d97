// Sets a signal to its default action until the object is destroyed. Without this object, the
// process may ignore the signal: nohup and background shells make processes ignore some signals.
#pragma once

#include <csignal>

class DefaultAction {
 public:
  explicit DefaultAction(int signal) : signal_(signal), old_(::signal(signal, SIG_DFL)) {}
  DefaultAction(const DefaultAction&) = delete;
  DefaultAction& operator=(const DefaultAction&) = delete;
  ~DefaultAction() { ::signal(signal_, old_); }

 private:
  int signal_;
  void (*old_)(int);
};
