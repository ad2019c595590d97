// Tests commands that a session refuses for lack of memory, and commands that the user interrupts.
#include <catch2/catch.hpp>

#include "support/temporary_folder.h"
#include "values/session_fixture.h"

using namespace am;
using namespace am::inspect;
using namespace am::values;
using namespace am::values::test;

namespace {

Session with_memory(int64_t available, bool force = false) {
  SessionOptions options;
  options.force = force;
  options.memory = [available] { return launch::MemoryInfo{int64_t{1} << 40, available}; };
  return stored_session(fixture("llama") + kModel, options);
}

// Returns a session in which the callback `interrupted` returns true after `asked` calls.
Session interrupted_after(int asked) {
  SessionOptions options;
  options.interrupted = [asked, count = std::make_shared<int>(0)] { return ++*count > asked; };
  return stored_session(fixture("llama"), options);
}

std::string message(const Outcome& outcome) {
  return outcome.error ? outcome.error->message : std::string();
}

}  // namespace

TEST_CASE("full tensors that do not fit are not assembled", "[inspect]") {
  Session session = with_memory(1000);
  const Outcome refused = execute(session, "unshard all");
  CHECK_THAT(message(refused), Catch::Contains("takes 84.88 KiB of memory") &&
                                   Catch::Contains("1000 B of 1.00 TiB are available"));
  CHECK(session.view().held_bytes().front().unsharded == 0);
  CHECK(execute(session, "unshard model.norm").ok());
  CHECK(execute(session, "unshard all --force").ok());
  CHECK(execute(session, "unshard all")
            .ok());  // --force has assembled all tensors, so no more memory is needed
  CHECK_THAT(message(execute(session, "unshard all --force=yes")), Catch::Contains("no value"));
}

TEST_CASE("a model that does not fit is not loaded", "[inspect]") {
  for (const char* command : {"loss AB", "logprob AB", "generate AB"}) {
    Session session = with_memory(1000);
    CHECK_THAT(message(execute(session, command)), Catch::Contains("of memory, but only 1000 B"));
    CHECK(execute(session, cat(command, " --force")).ok());
    CHECK(execute(session, command).ok());  // the model is in memory already
  }
  Session forced = with_memory(1000, /*force=*/true);
  CHECK(execute(forced, "loss AB").ok());
  // In bfloat16 the model needs half the memory and just fits.
  Session whole = with_memory(60'000);
  CHECK_FALSE(execute(whole, "loss AB").ok());
  CHECK(execute(whole, "set dtype bf16").ok());
  CHECK(execute(whole, "loss AB").ok());
}

TEST_CASE("an interrupt ends long commands wherever they are", "[inspect]") {
  const TemporaryFolder temporary;
  const std::string out = (temporary / "out").string();
  for (const std::string& command :
       {std::string("stats"), std::string("hist lm_head.weight"), std::string("unshard all"),
        std::string("loss AB"), cat("export ", out)}) {
    for (const int asked : {0, 1, 3}) {
      Session session = interrupted_after(asked);
      const Outcome outcome = execute(session, command);
      INFO(command << " after " << asked);
      if (command == "hist lm_head.weight" && asked == 3)
        continue;  // this command calls `interrupted` less often
      CHECK(message(outcome) == "interrupted");
      CHECK_FALSE(outcome.error->fatal());
      CHECK(session.view().held_bytes().front().unsharded == 0);
      CHECK(std::filesystem::is_empty(temporary.path()));
    }
  }
}

TEST_CASE("an interrupt of one rank ends a command on all", "[inspect]") {
  const std::string plan = plan_text("llama", "dp_size = 2", kPlainFsdp2);
  Diagnostics found;
  const auto opened = config::parse_plan(plan, "test.toml", {}, found);
  const auto config = model::load_config(opened->resolve(opened->model.path), found);
  const job::Job job = job::make_job(*opened, *config, 2);
  const TemporaryFolder temporary;
  for (const std::string& command :
       {std::string("stats"), std::string("unshard all"), cat("export ", temporary / "out")}) {
    std::vector<std::string> messages(2);
    std::vector<int64_t> left(2);
    runtime::run_ranks(2, [&](const runtime::World& world) {
      SessionOptions options;
      options.interrupted = [&world, count = std::make_shared<int>(0)] {
        return world.rank() == 1 && ++*count > 2;
      };
      Session session = session_of(std::make_unique<ShardedView>(job, world), options);
      const auto rank = static_cast<size_t>(world.rank());
      messages[rank] = message(execute(session, command));
      left[rank] = session.view().held_bytes()[rank].unsharded;
    });
    INFO(command);
    CHECK(messages == std::vector<std::string>{"interrupted", "interrupted"});
    CHECK(left == std::vector<int64_t>{0, 0});
    CHECK(std::filesystem::is_empty(temporary.path()));
  }
}
