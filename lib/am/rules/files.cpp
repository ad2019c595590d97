// Rules on plan files, JSON files and imported files, reported by the code that reads these files.
#include <array>

#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

constexpr std::array<Rule, 15> kRules = {{
    {.id = "plan.file",
     .summary = "the plan's file can be read",
     .explain = "If one of several plans does not exist, is a folder or may not be read, `am-plan "
                "check` goes on with the other plans. The exit status is then 2, because that plan "
                "was not checked.",
     .check = nullptr},
    {.id = "plan.syntax",
     .summary = "the plan is a TOML file",
     .explain =
         "A plan is written in TOML 1.0: sections in brackets, `key = value` lines, text in "
         "quotes. The parser stops at the first place that it cannot understand, so no further "
         "error is reported.\n\n"
         "Usual causes: text without quotes (`name = fsdp2`), a key or section that is written "
         "twice, a missing bracket. The value in `--set section.key=value` is read as TOML too, "
         "but text needs no quotes there.",
     .check = nullptr},
    {.id = "plan.key",
     .summary = "every key of a plan is known in its section",
     .explain =
         "A misspelt key that is silently ignored costs a training run: the job starts with the "
         "default. So an unknown key is an error, with the nearest known name. A key of another "
         "strategy is reported with the strategy that has it.\n\n"
         "`am-plan schema` prints all sections and keys with their types, defaults and meaning.",
     .check = nullptr},
    {.id = "plan.section",
     .summary = "every section of a plan is known",
     .explain =
         "`am-plan schema` prints all sections. A misspelt section would switch off all of its "
         "keys at once, so it is an error, with the nearest known name.",
     .check = nullptr},
    {.id = "plan.required",
     .summary = "the keys that have no default are given",
     .explain = "model.path has no default. Data that is read from files needs data.path or tables "
                "[[data.source]]. The other keys of sections have defaults, which `am-plan schema` "
                "prints; a table in a list has required keys of its own.",
     .check = nullptr},
    {.id = "plan.type",
     .summary = "every value has the type of its key",
     .explain =
         "`tp_size = \"2\"` is text, not a number. TOML distinguishes the two, and so does "
         "automesh: a value of another type is usually a typo.\n\n"
         "Write numbers without quotes, text with quotes, lists in brackets and small tables in "
         "braces.",
     .check = nullptr},
    {.id = "plan.range",
     .summary = "every number is in the range of its key",
     .explain = "Most sizes are at least 1, and rates are not negative. Upper limits are "
                "far above any real value; they keep products of sizes exact.\n\n"
                "The message names the range; `am-plan schema` lists the ranges of all keys.",
     .check = nullptr},
    {.id = "plan.value",
     .summary = "every key with a fixed list of values has one of them",
     .explain =
         "Keys such as `strategy.name`, `scheduler.name` or `model.dtype` accept one of a few "
         "words. The help line names the nearest ones.",
     .check = nullptr},
    {.id = "json.syntax",
     .summary = "a model's config is a JSON file",
     .explain = "The config.json that `model.path` names, or another JSON file, could not be "
                "parsed. The diagnostic points at the first character that JSON does not allow; an "
                "empty or cut-off file ends too early.\n\n"
                "Download the file again, or compare it with the one on the hub.",
     .check = nullptr},
    {.id = "exchange.syntax",
     .summary = "an imported file is well-formed",
     .explain =
         "`am-plan import` reads torchtitan's TOML files and flags, Megatron-LM's command line, "
         "the YAML of NeMo AutoModel and accelerate, and DeepSpeed's JSON. In YAML, tags, keys "
         "that are not text, several documents, and aliases that expand to more values than a "
         "configuration has are refused rather than guessed; in a command line, so are variables "
         "and redirections.\n\n"
         "Write the value out at that place, or import the file that the framework itself prints "
         "after resolving it.",
     .check = nullptr},
    {.id = "exchange.framework",
     .summary = "an imported file belongs to the framework that --from names",
     .explain = "Each framework's file has settings by which it is recognized. A file without any "
                "of them would become a plan with only defaults, so it is refused.",
     .check = nullptr},
    {.id = "exchange.lost",
     .summary = "settings that an import leaves out change neither the layout nor the numbers",
     .explain =
         "A setting that a plan cannot express is ignored, and listed, if it is about logging, "
         "data or speed. An unknown degree of parallelism, 8-bit matrix products, or "
         "offload to the host or to a disk changes the job: each of these is an error, reported at "
         "its place in the file. `am-plan import --force` makes the "
         "plan without them and warns.",
     .check = nullptr},
    {.id = "exchange.model",
     .summary = "an imported file is for the model that --model names",
     .explain =
         "Megatron's command line repeats the model's geometry (--num-layers, --hidden-size, "
         "--num-experts, ...). It is compared with the config.json of --model; where they differ "
         "the plan would be for another model. --force imports it with warnings.",
     .check = nullptr},
    {.id = "exchange.type",
     .summary = "every setting of an imported file has the type that its framework expects",
     .explain = "A size that is text, or a list where one value belongs, would stop the framework "
                "too; `am-plan import` reports its place instead of guessing.",
     .check = nullptr},
    {.id = "exchange.value",
     .summary = "every imported setting can be expressed in a plan",
     .explain =
         "Some settings cannot be left out without changing the layout, so they are errors: sizes "
         "whose product is not the number of ranks, and a pipeline schedule or a kind of "
         "distribution that a plan does not have. Settings that do not affect the layout are left "
         "out and listed as ignored.\n\n"
         "The help line names what can be imported.",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> file_rules() { return kRules; }

}  // namespace am::rules
