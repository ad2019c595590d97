#include <algorithm>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"
#include "am/chat/interpreter.h"
#include "am/chat/objects.h"

namespace am::chat {

// Redirects the interpreter's output to a buffer while the object exists. take() returns the
// buffer's text.
class Interpreter::Captured {
 public:
  explicit Captured(Interpreter& in) : in_(in), before_(in.output_) { in.output_ = &text_; }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() { in_.output_ = before_; }

  Value take() { return in_.heap_.text(std::move(text_)); }

 private:
  Interpreter& in_;
  std::string* before_;
  std::string text_;
};

Rendered Interpreter::render(const Block& body) {
  Scope top;
  top.parent = &globals_;
  execute(body, top);
  Rendered out{std::move(root_), {}};
  for (const GeneratedSpan& span : generated_) {
    const std::string_view rest =
        std::string_view(out.text).substr(std::min(span.begin, out.text.size()));
    out.generated.push_back({span.begin, span.begin + byte_offset(rest, span.end)});
  }
  return out;
}

void Interpreter::write(const Value& value) {
  const Value text = str(value, heap_);
  heap_.charge(static_cast<int64_t>(text.string.size()));
  *output_ += text.string;
}

Interpreter::Flow Interpreter::execute(const Block& body, Scope& scope) {
  for (const Statement& statement : body) {
    const Flow flow = execute_one(statement, scope);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_one(const Statement& statement, Scope& scope) {
  heap_.step();
  line_ = statement.line;
  if (const auto* text = std::get_if<Text>(&statement.node)) {
    write(Value::text(text->text));
  } else if (const auto* output = std::get_if<Output>(&statement.node)) {
    write(evaluate(*output->value, scope));
  } else if (const auto* set = std::get_if<Assignment>(&statement.node)) {
    assign(set->target, evaluate(*set->value, scope), scope);
  } else if (const auto* choice = std::get_if<IfBlock>(&statement.node)) {
    const Heap::Level level(heap_);
    for (const auto& [condition, body] : choice->branches) {
      if (is_true(evaluate(*condition, scope))) return execute(body, scope);
    }
    return execute(choice->otherwise, scope);
  } else if (const auto* loop = std::get_if<ForBlock>(&statement.node)) {
    std::vector<Value> items = elements(evaluate(*loop->iterable, scope), heap_);
    if (loop->is_recursive) {
      write(capture_loop(*loop, std::move(items), scope, 0));
    } else {
      run_loop(*loop, std::move(items), scope, 0);
    }
  } else if (const auto* macro = std::get_if<MacroBlock>(&statement.node)) {
    scope.set(macro->macro.name, Heap::object(heap_.make<Macro>(macro->macro, scope)));
  } else if (const auto* control = std::get_if<LoopControl>(&statement.node)) {
    return control->is_break ? Flow::kBreak : Flow::kContinue;
  } else if (const auto* call = std::get_if<CallBlock>(&statement.node)) {
    execute_call(*call, scope);
  } else if (const auto* generation = std::get_if<GenerationBlock>(&statement.node)) {
    execute_generation(*generation, scope);
  } else {
    return execute_capture(statement, scope);
  }
  return Flow::kNext;
}

// Executes a `with`, `set` or `filter` block. Each of these blocks has its own scope. `break` and
// `continue` may leave the block.
Interpreter::Flow Interpreter::execute_capture(const Statement& statement, Scope& scope) {
  const Heap::Level level(heap_);
  auto* const inner = heap_.make<Scope>();
  inner->parent = &scope;
  if (const auto* with = std::get_if<WithBlock>(&statement.node)) {
    for (const auto& [target, value] : with->values)
      assign(target, evaluate(*value, scope), *inner);
    return execute(with->body, *inner);
  }
  const auto* const set = std::get_if<CaptureBlock>(&statement.node);
  const auto* const filter = std::get_if<FilterBlock>(&statement.node);
  Value text;
  {
    Captured captured(*this);
    const Flow flow = execute(set != nullptr ? set->body : filter->body, *inner);
    if (flow != Flow::kNext) return flow;
    text = captured.take();
  }
  const ExpressionPointer& filters = set != nullptr ? set->filter : filter->filter;
  if (filters) text = apply_filters(*filters, text, *inner);
  if (set != nullptr) {
    assign(set->target, text, scope);
  } else if (text.is(Kind::kText)) {
    write(text);
  } else {
    throw Failure(cat("the filter of the block returns a ", type_name(text), ", not a text"));
  }
  return Flow::kNext;
}

// Returns the result of a chain of filters for a text. The first filter of the chain has no object
// in the syntax tree.
Value Interpreter::apply_filters(const Expression& filters, const Value& text, Scope& scope) {
  const auto& filter = std::get<FilterOf>(filters.node);
  const Value object = filter.object ? apply_filters(*filter.object, text, scope) : text;
  return evaluate_filter(filter, scope, &object);
}

Value Interpreter::capture(const Block& body, Scope& scope) {
  const Heap::Level level(heap_);
  Captured captured(*this);
  execute(body, scope);
  return captured.take();
}

void Interpreter::execute_call(const CallBlock& block, Scope& scope) {
  const auto& call_of = std::get<CallOf>(block.call->node);
  const Value function = evaluate(*call_of.function, scope);
  Arguments arguments = evaluate_arguments(call_of.arguments, scope);
  arguments.named.emplace_back("caller", Heap::object(heap_.make<Macro>(block.caller, scope)));
  write(call(function, arguments));
}

void Interpreter::execute_generation(const GenerationBlock& block, Scope& scope) {
  auto* const inner = heap_.make<Scope>();
  inner->parent = &scope;
  const size_t begin = root_.size();
  const Value text = capture(block.body, *inner);
  generated_.push_back({begin, length(text.string)});
  write(text);
}

void Interpreter::run_loop(const ForBlock& block, std::vector<Value> items, Scope& scope,
                           int depth) {
  const Heap::Level level(heap_);
  auto* const loop = heap_.make<Loop>(*this, block, std::move(items), scope, depth);
  auto* const inner = heap_.make<Scope>();
  bool is_empty = true;
  while (loop->advance()) {
    heap_.step();
    inner->parent = &scope;
    inner->names.clear();
    inner->set("loop", Heap::object(loop));
    assign(block.target, loop->current(), *inner);
    const Flow flow = execute(block.body, *inner);
    if (flow == Flow::kBreak) break;
    // As in jinja2, `else` also runs if `break` or `continue` ended every iteration.
    if (flow == Flow::kNext) is_empty = false;
  }
  if (!is_empty) return;
  inner->parent = &scope;
  inner->names.clear();
  execute(block.otherwise, *inner);
}

Value Interpreter::capture_loop(const ForBlock& block, std::vector<Value> items, Scope& scope,
                                int depth) {
  Captured captured(*this);
  run_loop(block, std::move(items), scope, depth);
  return captured.take();
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.is_tuple) {
    const std::vector<Value> parts = elements(value, heap_);
    if (parts.size() != target.parts.size()) {
      throw Failure(cat("expected ", target.parts.size(), " values to unpack, not ", parts.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i], scope);
  } else if (target.attribute.empty()) {
    scope.set(target.name, value);
  } else {
    const Value object = lookup(target.name, scope);
    auto* const names =
        object.is(Kind::kObject) ? dynamic_cast<Namespace*>(object.object) : nullptr;
    if (names == nullptr) {
      throw Failure(
          cat("cannot assign the attribute of '", target.name, "', which is not a namespace"));
    }
    heap_.charge(sizeof(Value) * 2);
    names->set(target.attribute, value);
  }
}

}  // namespace am::chat
