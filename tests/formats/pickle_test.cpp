// Tests the reader of pickles with handwritten pickles: the values that the opcodes produce, and
// the byte offsets in error messages.
#include "am/formats/pickle.h"

#include <catch2/catch.hpp>
#include <deque>
#include <string>

#include "am/base/error.h"
#include "am/base/text.h"

using namespace am;
using namespace am::formats;
using namespace std::string_literals;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Parses a pickle. Keeps a copy of the text, to which the parsed values refer.
Pickle unpickled(const std::string& text) {
  static std::deque<std::string> kept;
  return Pickle::read(bytes_of(kept.emplace_back(text)), "p");
}

// Returns the error message for a pickle, from the byte offset on. Returns "none" if the pickle is
// valid.
std::string pickle_problem(const std::string& text) {
  try {
    unpickled(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    const std::string prefix = "p: not a pickle that can be read: ";
    const std::string what = error.what();
    REQUIRE(starts_with(what, prefix));
    return what.substr(prefix.size());
  }
  return "none";
}

}  // namespace

TEST_CASE("a pickle's numbers") {
  CHECK(unpickled("K\x07.").root().integer() == 7);
  CHECK(unpickled("M\xff\xff.").root().integer() == 65535);
  CHECK(unpickled("J\xfe\xff\xff\xff.").root().integer() == -2);
  CHECK(unpickled("\x8a\x00."s).root().integer() == 0);
  CHECK(unpickled("\x8a\x01\xff.").root().integer() == -1);
  CHECK(unpickled("\x8a\x02\xff\x00."s).root().integer() == 255);
  CHECK(unpickled("\x8a\x06\x00\x00\x00\x00\x00\x01."s).root().integer() == int64_t{1} << 40);
  const std::string wide = "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40."s;
  CHECK(unpickled(wide).root().is(PickleKind::kLongInt));
  CHECK(unpickled(wide).root().bytes().size() == 9);
  CHECK(unpickled("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s).root().real() == 1.5);
  CHECK(unpickled("\x88.").root().truth());
  CHECK(unpickled("\x89.").root().is(PickleKind::kBool));
  CHECK_FALSE(unpickled("\x89.").root().truth());
  CHECK(unpickled("N.").root().is(PickleKind::kNone));
}

TEST_CASE("a pickle's texts and containers") {
  CHECK(unpickled("\x8c\x02hi.").root().text() == "hi");
  CHECK(unpickled("X\x02\x00\x00\x00hi."s).root().text() == "hi");
  CHECK(unpickled("C\x02hi.").root().bytes() == "hi");
  CHECK_FALSE(unpickled("C\x02hi.").root().text());

  const std::string list =
      "](K\x01K\x02K\x03"
      "eK\x04"
      "a.";
  REQUIRE(unpickled(list).root().items().size() == 4);
  CHECK(unpickled(list).root().items()[3].integer() == 4);
  CHECK(unpickled("K\x01K\x02\x86.").root().items().size() == 2);
  CHECK(unpickled(").").root().is(PickleKind::kTuple));
  CHECK(unpickled("\x8f(K\x01K\x02\x90.").root().items().size() == 2);

  // A dict keeps the last value of a repeated key. In `shared`, an item is appended to a list that
  // the memo already holds: a later reference to the memo returns the list with this item.
  const Pickle dict = unpickled(
      "}(U\x01"
      "aK\x01U\x01"
      "bK\x02uU\x01"
      "aK\x03s.");
  REQUIRE(dict.root().find("a") != nullptr);
  CHECK(dict.root().find("a")->integer() == 3);
  CHECK(dict.root().find("b")->integer() == 2);
  CHECK(dict.root().find("c") == nullptr);
  const Pickle shared = unpickled(
      "]\x94K\x05"
      "ah\x00\x86."s);
  CHECK(shared.root().items()[1].items().size() == 1);
}

TEST_CASE("globals are tags, and nothing is called") {
  const Pickle made = unpickled("cos\nsystem\nU\x02ls\x85R.");
  CHECK(made.root().is_object("os", "system"));
  CHECK(made.root().arguments().items()[0].text() == "ls");
  REQUIRE(made.globals().size() == 1);
  CHECK(made.globals()[0].alarming);
  CHECK(made.globals()[0].position == 0);

  const Pickle stacked = unpickled("\x8c\x05posix\x8c\x06system\x93)R0N.");
  REQUIRE(stacked.globals().size() == 1);  // recorded although the call's result is discarded
  CHECK(stacked.globals()[0].module == "posix");
  CHECK(stacked.globals()[0].alarming);

  const Pickle ordered = unpickled("ccollections\nOrderedDict\n)R(U\x01xK\x01u}U\x01yK\x02sb.");
  CHECK(ordered.root().find("x")->integer() == 1);
  CHECK(ordered.root().state().find("y")->integer() == 2);
  CHECK_FALSE(ordered.globals()[0].alarming);
}

TEST_CASE("which globals are alarming") {
  for (const auto& [module, name] : {std::pair{"builtins", "eval"},
                                     {"__builtin__", "getattr"},
                                     {"os.path", "join"},
                                     {"torch", "load"},
                                     {"torch", "hub.load"},
                                     {"torch.hub", "load"},
                                     {"nt", "system"},
                                     {"torch", "Size.__class__"},
                                     {"importlib.machinery", "x"},
                                     {"pip", "main"},
                                     {"pkgutil", "resolve_name"}}) {
    INFO(module << "." << name);
    CHECK(is_alarming_global(module, name));
  }
  for (const auto& [module, name] : {std::pair{"builtins", "set"},
                                     {"torch", "float32"},
                                     {"torch", "Size"},
                                     {"collections", "OrderedDict"},
                                     {"torch._utils", "_rebuild_tensor_v2"},
                                     {"argparse", "Namespace"},
                                     {"osmosis", "x"},
                                     {"pathlib", "PosixPath"}}) {
    INFO(module << "." << name);
    CHECK_FALSE(is_alarming_global(module, name));
  }
}

TEST_CASE("what is no pickle is refused with its place") {
  CHECK(pickle_problem("") == "byte 0: the next value needs 1 bytes, but 0 are left");
  CHECK(pickle_problem("K\x01") == "byte 2: the next value needs 1 bytes, but 0 are left");
  CHECK(pickle_problem(".") ==
        "byte 0: it ends with 0 values and 0 open marks instead of one value");
  CHECK(pickle_problem("(N.") ==
        "byte 2: it ends with 1 values and 1 open marks instead of one value");
  CHECK(pickle_problem("N.x") == "byte 1: 1 bytes follow its end");
  CHECK(pickle_problem("(0"
                       "0.") == "byte 2: an opcode takes a value from an empty stack");
  CHECK(pickle_problem("N(\x85.") == "byte 2: an opcode takes a value from an empty stack");
  CHECK(pickle_problem("e.") == "byte 0: an opcode closes a mark, but none is open");
  CHECK(pickle_problem("N(K\x01"
                       "e.") == "byte 4: an opcode adds items to a value that is not a container");
  CHECK(pickle_problem("}(K\x01u.") == "byte 4: a dict has a key without a value");
  CHECK(pickle_problem("}K\x01"
                       "a.") == "byte 3: an opcode adds items to a value that is not a container");
  CHECK(pickle_problem("h\x00."s) == "byte 0: the memo has no value at index 0");
  CHECK(pickle_problem("Nr\xff\xff\xff\xff.") ==
        "byte 1: a value is stored in the memo at index 4294967295");
  CHECK(pickle_problem("N)R.") ==
        "byte 2: the target of a call is not a global (a class or function)");
  CHECK(pickle_problem("cos\nsystem\nNR.") == "byte 12: the arguments of a call are not a tuple");
  CHECK(pickle_problem("cos\nsystem\n}b.") ==
        "byte 12: a state is set on a value that is not an object");
  CHECK(pickle_problem("\x95\xff\xff\xff\xff\xff\xff\xff\xff.") ==
        "byte 0: a frame is longer than the rest of the file");
  CHECK(pickle_problem("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.") ==
        "byte 0: a string has 9223372036854775807 bytes; the limit is 1048576");
  CHECK(pickle_problem("\x8b\x00\x00\x00\x80."s) == "byte 0: an integer has 2147483648 bytes");
  CHECK(pickle_problem("\x80\x06N.") == "byte 0: protocol 6 is not supported");
  for (const char opcode : "IiLlFSVoPg\x82\x83\x84\x92\x96\x97\x98"s) {
    if (opcode == 'l') continue;
    INFO("opcode " << int{static_cast<unsigned char>(opcode)});
    CHECK(
        pickle_problem(std::string(1, opcode) + "N.").find("does not occur in files of tensors") !=
        std::string::npos);
  }
}

TEST_CASE("a pickle that nests or repeats itself without end costs no more than its bytes") {
  std::string deep = "N";
  for (int i = 0; i < 200'000; ++i) deep += '\x85';
  CHECK(unpickled(deep + ".").root().items().size() == 1);

  std::string doubled = ")";
  for (int i = 0; i < 60; ++i)
    doubled += "2\x86";  // nested pairs that share their contents: 2^60 leaves
  CHECK(unpickled(doubled + ".").root().items().size() == 2);

  const Pickle cycle = unpickled(
      "]\x94h\x00"
      "a."s);
  CHECK(cycle.root().items()[0].items()[0].items().size() == 1);

  CHECK(pickle_problem(std::string(100'000, '(') + ".").find("100000 open marks") !=
        std::string::npos);
}

TEST_CASE("where a pickle ends") {
  size_t end = 0;
  const std::string two = "K\x01.K\x02.";
  CHECK(Pickle::read(bytes_of(two), "p", &end).root().integer() == 1);
  CHECK(end == 3);
}
