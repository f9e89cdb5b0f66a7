#include "lora/adapter_pattern.h"

#include <utility>

#include "lora/adapter_pattern_syntax.h"

namespace quire {
namespace {

using State = AdapterPattern::State;
using StepKind = AdapterPattern::Kind;

constexpr size_t kMaxStates = 20'000;

/// Makes states from the tree, each part before the one that follows it: emit() is given what comes next.
class PatternCompiler {
 public:
  PatternCompiler(std::vector<State>& states, std::vector<std::bitset<256>>& byte_sets)
      : states_(states), byte_sets_(byte_sets) {}

  /// The state where `node` begins. Once full, nothing more is added.
  int emit(const PatternNode& node, int next) {
    ++calls_;
    switch (node.kind) {
      case PatternNode::Kind::kBytes:
        byte_sets_.push_back(node.bytes);
        return add({StepKind::kBytes, next, 0, static_cast<int>(byte_sets_.size()) - 1});
      case PatternNode::Kind::kSequence:
        for (auto part = node.children.rbegin(); part != node.children.rend(); ++part) next = emit(*part, next);
        return next;
      case PatternNode::Kind::kChoice:
        return emit_choice(node, next);
      case PatternNode::Kind::kRepeat:
        return emit_repeat(node, next);
      case PatternNode::Kind::kBegin:
        return add({StepKind::kBegin, next, 0, 0});
      case PatternNode::Kind::kEnd:
        return add({StepKind::kEnd, next, 0, 0});
      case PatternNode::Kind::kWordEdge:
        return add({StepKind::kWordEdge, next, 0, 0});
      case PatternNode::Kind::kNoWordEdge:
        return add({StepKind::kNoWordEdge, next, 0, 0});
      case PatternNode::Kind::kAhead:
      case PatternNode::Kind::kNotAhead: {
        const StepKind kind = node.kind == PatternNode::Kind::kAhead ? StepKind::kAhead : StepKind::kNotAhead;
        const int inner = emit(node.children[0], add({StepKind::kAccept, 0, 0, 0}));
        return add({kind, next, inner, 0});
      }
    }
    return next;
  }

  int add(State state) {
    if (full()) return 0;
    states_.push_back(state);
    return static_cast<int>(states_.size()) - 1;
  }

  /// Calls count too: repetitions of nothing add no states.
  bool full() const { return states_.size() >= kMaxStates || calls_ >= 2 * kMaxStates; }

 private:
  int emit_choice(const PatternNode& node, int next) {
    int start = emit(node.children.back(), next);
    for (size_t i = node.children.size() - 1; i-- > 0;) {
      const int way = emit(node.children[i], next);
      start = add({StepKind::kSplit, way, start, 0});
    }
    return start;
  }

  int emit_repeat(const PatternNode& node, int next) {
    const PatternNode& part = node.children[0];
    int start = next;
    if (node.max) {
      for (int i = node.min; i < *node.max && !full(); ++i) start = add({StepKind::kSplit, emit(part, start), next, 0});
    } else {
      start = add({StepKind::kSplit, 0, next, 0});
      const int body = emit(part, start);
      if (!full()) states_[static_cast<size_t>(start)].next = body;
    }
    for (int i = 0; i < node.min && !full(); ++i) start = emit(part, start);
    return start;
  }

  std::vector<State>& states_;
  std::vector<std::bitset<256>>& byte_sets_;
  size_t calls_ = 0;
};

bool is_word(std::string_view name, size_t position) {
  if (position >= name.size()) return false;
  const char c = name[position];
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool at_word_edge(std::string_view name, size_t position) {
  return (position > 0 && is_word(name, position - 1)) != is_word(name, position);
}

}  // namespace

Result<AdapterPattern> AdapterPattern::compile(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const PatternNode tree, parse_pattern(text));
  AdapterPattern pattern;
  PatternCompiler compiler(pattern.states_, pattern.byte_sets_);
  pattern.start_ = compiler.emit(tree, compiler.add({StepKind::kAccept, 0, 0, 0}));
  if (compiler.full()) return invalid_argument("its repetitions make it too large");
  return pattern;
}

Result<bool> AdapterPattern::matches(std::string_view name, MatchBudget& budget) const {
  const bool matched = run(start_, 0, name, true, budget);
  if (budget.steps <= 0) return invalid_argument("it takes too long to match");
  return matched;
}

bool AdapterPattern::run(int start, size_t position, std::string_view name, bool whole, MatchBudget& budget) const {
  std::vector<bool> seen(states_.size() * (name.size() + 1));
  budget.steps -= static_cast<int64_t>(seen.size() / 64);
  std::vector<std::pair<int, size_t>> open;
  const auto visit = [&](int state, size_t at) {
    const size_t key = static_cast<size_t>(state) * (name.size() + 1) + at;
    if (seen[key]) return;
    seen[key] = true;
    open.emplace_back(state, at);
  };
  visit(start, position);
  while (!open.empty() && budget.steps-- > 0) {
    const auto [index, at] = open.back();
    open.pop_back();
    const State& state = states_[static_cast<size_t>(index)];
    bool passes = true;
    switch (state.kind) {
      case StepKind::kBytes:
        if (at < name.size() && byte_sets_[static_cast<size_t>(state.bytes)][static_cast<unsigned char>(name[at])]) {
          visit(state.next, at + 1);
        }
        continue;
      case StepKind::kSplit:
        visit(state.other, at);
        break;
      case StepKind::kBegin:
        passes = at == 0;
        break;
      case StepKind::kEnd:
        passes = at == name.size();
        break;
      case StepKind::kWordEdge:
        passes = at_word_edge(name, at);
        break;
      case StepKind::kNoWordEdge:
        passes = !at_word_edge(name, at);
        break;
      case StepKind::kAhead:
      case StepKind::kNotAhead:
        passes = run(state.other, at, name, false, budget) == (state.kind == StepKind::kAhead);
        break;
      case StepKind::kAccept:
        if (!whole || at == name.size()) return true;
        continue;
    }
    if (passes) visit(state.next, at);
  }
  return false;
}

}  // namespace quire
