// Tests templates: their output equals the output of jinja2 in transformers' environment
// (tests/data/chat/cases.json), errors name a place, and limits stop hostile templates.
#include "am/chat/template.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "support/folders.h"

using namespace am;
using namespace am::chat;

namespace {

std::string rendered(const std::string& source, const Json& variables = Json::object()) {
  return Template(source).render(variables).text;
}

// Returns the error of rendering the template; an empty text if rendering succeeds.
std::string error_of(const std::string& source, const Json& variables = Json::object(),
                     const RenderOptions& options = {}) {
  try {
    Template(source).render(variables, options);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return error.what();
  }
  return {};
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Checks that rendering the template fails within 30 s of processor time, with an error that names
// the limit. The limits are a tenth of the defaults, because these tests also run under sanitizers.
void check_limit(const std::string& source, const std::string& limit) {
  INFO(source.substr(0, 200));
  RenderOptions options;
  options.limits.steps /= 10;
  options.limits.bytes /= 10;
  const std::clock_t begin = std::clock();
  CHECK_THAT(error_of(source, Json::object(), options),
             Catch::Contains("limit") && Catch::Contains(limit));
  CHECK((std::clock() - begin) / CLOCKS_PER_SEC < 30);
}

}  // namespace

TEST_CASE("every construct has jinja2's text and spans, or is an error as there") {
  const std::string file = std::string(am::test::kDataFolder) + "/chat/cases.json";
  const Json data = parse_json_object(read_file(file), file);
  RenderOptions options;
  options.now = data["now"].get<int64_t>();
  size_t checked = 0;
  for (const Json& expected : data["cases"]) {
    const auto source = expected["template"].get<std::string>();
    INFO(source);
    ++checked;
    if (expected.contains("error")) {
      CHECK_THAT(error_of(source, data["variables"], options),
                 Catch::StartsWith("chat_template.jinja:"));
      continue;
    }
    const Rendered actual = Template(source).render(data["variables"], options);
    CHECK(actual.text == expected["text"].get<std::string>());
    Json spans = Json::array();
    for (const GeneratedSpan& span : actual.generated) spans.push_back({span.begin, span.end});
    CHECK(spans == expected["spans"]);
  }
  CHECK(checked > 350);
}

TEST_CASE("powers have at most 127 bits") {
  CHECK(rendered("{{ (-2) ** 127 }}") == "-170141183460469231731687303715884105728");
  for (const char* power : {"(-2) ** 128", "(-2) ** 129", "2 ** 127", "(-3) ** 1000000"}) {
    INFO(power);
    CHECK_THAT(error_of(cat("{{ ", power, " }}")), Catch::Contains("127 bits"));
  }
}

TEST_CASE("underscores in numbers stand between digits, as in Python") {
  const auto number = [](const std::string& text, const char* filter) {
    return rendered(cat("{{ '", text, "'|", filter, " }}"));
  };
  CHECK(number("1_0.2_5e1_0", "float(-1)") == "102500000000.0");
  CHECK(number("f_F", "int(-1, 16)") == "255");
  for (const char* text : {"1_e5", "1e_5", "1_.5", "1._5", "i_nf", "1__0", "_1", "1_"}) {
    INFO(text);
    CHECK(number(text, "float(-1)") == "-1");
  }
  for (const char* text : {"1__0", "_1", "1_", "1_a"}) {
    INFO(text);
    CHECK(number(text, "int(-1)") == "-1");
  }
}

TEST_CASE("an error names the template, its line and the reason") {
  CHECK(error_of("a\nb{{ x.y }}") == "chat_template.jinja:2: 'x' is undefined");
  CHECK(error_of("{% if a %}\n\n{{ raise_exception('roles ' ~ 'alternate') }}{% endif %}",
                 {{"a", 1}}) == "chat_template.jinja:3: roles alternate");
  CHECK(error_of("\n\n{% for x in y %}\n") ==
        "chat_template.jinja:3: the template ends before \"{% endfor %}\"");
  CHECK(error_of("{% include 'x' %}") == "chat_template.jinja:1: unknown tag \"include\"");
  CHECK(error_of("{{ 'a'|wordwrap }}") == "chat_template.jinja:1: there is no filter \"wordwrap\"");
  CHECK(error_of("{% macro m(a) %}{{ a.b }}{% endmacro %}\n{{ m() }}") ==
        "chat_template.jinja:1: parameter 'a' was not provided");
  CHECK_THROWS_WITH(Template("\xff", "models/x/chat_template.jinja"),
                    "models/x/chat_template.jinja: the template is not UTF-8");
}

TEST_CASE("endless work ends at the limit of steps or bytes") {
  const std::string loop = "{% for a in range(100000) %}{% for b in range(100000) %}";
  check_limit(loop + "{% endfor %}{% endfor %}", "limit of");
  check_limit(loop + "x{% endfor %}{% endfor %}", "limit of");
  check_limit("{% set n = namespace(t='ab') %}" + loop +
                  "{% set n.t = n.t + n.t %}{% endfor %}{% endfor %}",
              "bytes");
  check_limit(
      "{% set n = namespace(t=[1]) %}" + loop + "{% set n.t = n.t + n.t %}{% endfor %}{% endfor %}",
      "bytes");
  check_limit("{{ 'a' * 1000000000 }}", "bytes");
  check_limit("{{ [0] * 1000000000 }}", "bytes");
  check_limit("{{ 'ab' * (2 ** 120) }}", "bytes");
  check_limit("{{ range(1000000000) }}", "100000");
  check_limit("{{ range(-(2 ** 126), 2 ** 126) }}", "limit");
  check_limit("{{ 'a'.center(10 ** 12) }}{{ 'a'.ljust(10 ** 12) }}", "bytes");
  check_limit("{{ 'a'.zfill(10 ** 12) }}", "bytes");
  check_limit("{{ 'a'|indent(10 ** 12) }}", "bytes");
  check_limit("{{ '%1000000000d' % 1 }}", "bytes");
  check_limit("{{ '%.1000000000f' % 1 }}", "1000");
  check_limit("{{ '{:1000000000}'.format(1) }}", "bytes");
  check_limit("{{ [[[1]]]|tojson(indent=10 ** 12) }}", "bytes");
  check_limit("{{ ('a' * 1000000).replace('', 'a' * 1000000) }}", "bytes");
  check_limit("{{ ('a' * 1000000)|list|join('a' * 1000000) }}", "bytes");
  check_limit("{{ ('\t' * 1000000).expandtabs(10 ** 9) }}", "bytes");
  check_limit(
      "{% set c = 'a' * 1000000 %}{% for a in range(100000) %}{{ c.find('b') }}{% endfor %}",
      "steps");
  check_limit("{% set c = 'a' * 1000000 %}{% for a in range(100000) %}{{ c|length }}{% endfor %}",
              "steps");
  check_limit(
      "{% set c = 'a' * 1000000 %}{{ c.rfind('b' + c[:500000]) }}{{ c.strip(c) }}{{ "
      "c.rsplit(c[:500000] + 'b') }}",
      "steps");
  check_limit("{{ [1]|batch(10 ** 12, 0)|list }}", "bytes");
  check_limit("{{ [1]|slice(10 ** 12)|list }}", "bytes");
  check_limit("{{ 2 ** 127 }}", "127");
  check_limit("{{ 170141183460469231731687303715884105727 + 1 }}", "127");
  check_limit("{{ 99999999999999999999999999999999999999999999 }}", "127");
}

TEST_CASE("values that share parts are written only up to the limit") {
  const std::string doubled =
      "{% set n = namespace(v=['x']) %}{% for i in range(90) %}{% set n.v = [n.v, n.v] %}{% endfor "
      "%}";
  check_limit(doubled + "{{ n.v }}", "limit");
  check_limit(doubled + "{{ n.v|tojson }}", "limit");
  check_limit(doubled + "{% set m = n.v %}{% for i in range(90) %}{% endfor %}" + doubled +
                  "{{ m == n.v }}",
              "steps");
  check_limit(
      "{% set n = namespace(v={}) %}{% for i in range(90) %}{% set n.v = {'a': n.v, 'b': n.v} %}{% "
      "endfor %}{{ n.v }}",
      "limit");
  check_limit(
      "{% set n = namespace(v=(1,)) %}{% for i in range(90) %}{% set n.v = (n.v, n.v) %}{% endfor "
      "%}{{ {n.v: 1} }}",
      "steps");
}

TEST_CASE("deep recursion ends at the limit of depth") {
  check_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recurses");
  check_limit("{% macro m(x) %}{{ m([x]) }}{% endmacro %}{{ m(1) }}", "limit of");
  check_limit(
      "{% macro a() %}{% call b() %}{% endcall %}{% endmacro %}"
      "{% macro b() %}{{ a() }}{{ caller() }}{% endmacro %}{{ a() }}",
      "recurses");
  check_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recurses");
  check_limit("{% set n = namespace() %}{% set n.n = n %}{{ n }}", "recurses");
  check_limit(
      "{% set n = namespace(v=[]) %}{% for i in range(1000) %}{% set n.v = [n.v] %}{% endfor %}",
      "deeper");
  check_limit(
      "{% set n = namespace(v=[1]) %}{% for i in range(5000) %}{% set n.v = n.v|map('abs') %}{% "
      "endfor %}{{ n.v|list }}",
      "recurses");
  check_limit("{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}", "deeper");
  check_limit("{{ " + repeated("[", 100000), "deeper");
  check_limit("{{ " + repeated("-", 100000) + "1 }}", "deeper");
  check_limit("{{ " + repeated("not ", 100000) + "1 }}", "deeper");
  check_limit("{{ 1" + repeated(" + 1", 100000) + " }}", "deeper");
  check_limit("{{ x" + repeated(".x", 100000) + " }}", "deeper");
  check_limit("{{ x" + repeated("|abs", 100000) + " }}", "deeper");
  check_limit("{{ 1" + repeated(" if 1 else 1", 100000) + " }}", "deeper");
  check_limit(repeated("{% if 1 %}", 100000), "deeper");
  check_limit("{% set " + repeated("(", 1000) + "a" + repeated(")", 1000) + " = 1 %}", "deeper");
}

TEST_CASE("a template reaches no attributes of Python, and changes no value") {
  const Json variables = {{"d", {{"a", 1}}}, {"l", {1, 2}}, {"s", "text"}};
  for (const char* object : {"d", "l", "s", "1", "none", "true", "range", "namespace()",
                             "cycler(1)", "d.items", "loop"}) {
    for (const char* attribute :
         {"__class__", "__subclasses__", "__mro__", "__globals__", "__init__", "mro", "__dict__"}) {
      const std::string path = cat(object, ".", attribute);
      INFO(path);
      CHECK((error_of("{{ " + path + " }}", variables).empty()
                 ? rendered("{{ " + path + " }}", variables)
                 : "") == "");
      CHECK_THAT(error_of("{{ " + path + ".x }}", variables),
                 Catch::StartsWith("chat_template.jinja:1: "));
      CHECK_THAT(error_of("{{ " + path + "() }}", variables),
                 Catch::StartsWith("chat_template.jinja:1: "));
    }
  }
  for (const char* change : {"d.update({'a': 2})", "d.pop('a')", "d.clear()", "l.append(1)",
                             "l.sort()", "l.pop()", "d.setdefault('b', 1)"}) {
    INFO(change);
    CHECK_THAT(error_of(cat("{{ ", change, " }}"), variables), Catch::Contains("has no attribute"));
  }
  CHECK(rendered("{{ '{0.__class__}{0.__class__}'.format(d) }}", variables).empty());
}

TEST_CASE("the default limits end an endless template") {
  CHECK_THAT(
      error_of("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"),
      Catch::Contains("limit of 20000000 steps") || Catch::Contains("limit of 268435456 bytes"));
}

TEST_CASE("limits are options, and a template is rendered many times") {
  const Template loop("{% for i in range(n) %}{{ i }}{% endfor %}");
  CHECK(loop.render({{"n", 3}}).text == "012");
  RenderOptions few;
  few.limits.steps = 10;
  CHECK_THROWS_WITH(loop.render({{"n", 100}}, few), Catch::Contains("limit of 10 steps"));
  few.limits = {};
  few.limits.bytes = 1000;
  CHECK_THROWS_WITH(loop.render({{"n", 100}}, few), Catch::Contains("limit of 1000 bytes"));
  CHECK(loop.render({{"n", 2}}).text == "01");
}

TEST_CASE("integers beyond 64 bits keep their value") {
  CHECK(rendered("{{ x }} {{ x + 1 }} {{ x|tojson }}", {{"x", uint64_t{18446744073709551615u}}}) ==
        "18446744073709551615 18446744073709551616 18446744073709551615");
}
