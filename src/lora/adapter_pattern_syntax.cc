#include "lora/adapter_pattern_syntax.h"

#include <string>

namespace quire {
namespace {

using Kind = PatternNode::Kind;
using Bytes = std::bitset<256>;

constexpr size_t kMaxLength = 8192;
constexpr int kMaxDepth = 40;
constexpr int kMaxRepeat = 1000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Bytes range(unsigned char from, unsigned char to) {
  Bytes bytes;
  for (int byte = from; byte <= to; ++byte) bytes.set(static_cast<size_t>(byte));
  return bytes;
}

Bytes one(char c) { return Bytes().set(static_cast<unsigned char>(c)); }

/// The set that an escape letter stands for: \d, \w, \s and their opposites.
std::optional<Bytes> class_escape(char letter) {
  const Bytes digits = range('0', '9');
  const Bytes words = digits | range('a', 'z') | range('A', 'Z') | one('_');
  const Bytes spaces = range('\t', '\r') | one(' ');
  switch (letter) {
    case 'd':
      return digits;
    case 'D':
      return ~digits;
    case 'w':
      return words;
    case 'W':
      return ~words;
    case 's':
      return spaces;
    case 'S':
      return ~spaces;
    default:
      return std::nullopt;
  }
}

/// The byte that an escape stands for: control letters, and anything that is no letter or digit for itself.
std::optional<char> byte_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    default:
      break;
  }
  const bool letter_or_digit = is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter_or_digit ? std::nullopt : std::optional<char>(c);
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<PatternNode> parse() {
    if (text_.size() > kMaxLength) return invalid_argument("it is longer than 8192 bytes");
    PatternNode node = choice(0);
    if (!problem_ && !done()) fail("it has an unmatched ')'");
    if (problem_) return invalid_argument(*problem_);
    return node;
  }

 private:
  bool done() const { return position_ >= text_.size() || problem_.has_value(); }
  char peek() const { return text_[position_]; }
  bool take(std::string_view expected) {
    if (!text_.substr(position_).starts_with(expected)) return false;
    position_ += expected.size();
    return true;
  }
  void fail(std::string problem) {
    if (!problem_) problem_ = std::move(problem);
  }

  PatternNode choice(int depth) {
    PatternNode node{Kind::kChoice, {}, {}, 0, {}};
    if (depth > kMaxDepth) fail("it is nested too deep");
    if (problem_) return node;
    node.children.push_back(sequence(depth));
    while (!done() && take("|")) node.children.push_back(sequence(depth));
    return node;
  }

  PatternNode sequence(int depth) {
    PatternNode node;
    while (!done() && peek() != '|' && peek() != ')') {
      PatternNode part = atom(depth);
      quantify(part);
      node.children.push_back(std::move(part));
    }
    return node;
  }

  void quantify(PatternNode& part) {
    const size_t begin = position_;
    int min = 0;
    std::optional<int> max;
    if (done()) return;
    if (take("?")) {
      max = 1;
    } else if (take("+")) {
      min = 1;
    } else if (!take("*") && !counted(min, max)) {
      return;
    }
    if (begin == position_) return;
    if (!done() && peek() == '+') return fail("possessive quantifiers are not known");
    take("?");  // lazy: the same for a whole match
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '?')) return fail("it repeats a repetition");
    if (part.kind != Kind::kBytes && part.kind != Kind::kChoice) return fail("it repeats something without a width");
    PatternNode repeat{Kind::kRepeat, {}, {}, min, max};
    repeat.children.push_back(std::move(part));
    part = std::move(repeat);
  }

  /// {n}, {n,}, {,m}, {n,m}; any other '{' is a literal, as in Python.
  bool counted(int& min, std::optional<int>& max) {
    const size_t begin = position_;
    if (!take("{")) return false;
    const std::optional<int> low = number();
    const bool comma = take(",");
    const std::optional<int> high = comma ? number() : low;
    if (!take("}") || (!low && !comma)) {
      position_ = begin;
      return false;
    }
    min = low.value_or(0);
    max = high;
    if (max && *max < min) fail("a repetition's upper count is below its lower one");
    if (min > kMaxRepeat || max.value_or(0) > kMaxRepeat) fail("it repeats more than 1000 times");
    return true;
  }

  std::optional<int> number() {
    std::optional<int> value;
    while (position_ < text_.size() && is_digit(peek())) {
      value = std::min(value.value_or(0) * 10 + (peek() - '0'), kMaxRepeat + 1);
      ++position_;
    }
    return value;
  }

  PatternNode atom(int depth) {
    PatternNode node;
    const char c = text_[position_++];
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        node.kind = Kind::kBytes;
        node.bytes = byte_class();
        return node;
      case '\\':
        return escape();
      case '^':
        node.kind = Kind::kBegin;
        return node;
      case '$':
        node.kind = Kind::kEnd;
        return node;
      case '*':
      case '+':
      case '?':
        fail("it has nothing to repeat");
        return node;
      default:
        if (static_cast<unsigned char>(c) >= 0x80) fail("it has characters outside ASCII");
        node.kind = Kind::kBytes;
        node.bytes = c == '.' ? ~one('\n') : one(c);
        return node;
    }
  }

  PatternNode group(int depth) {
    Kind kind = Kind::kChoice;
    if (take("?:")) {
    } else if (take("?=")) {
      kind = Kind::kAhead;
    } else if (take("?!")) {
      kind = Kind::kNotAhead;
    } else if (take("?P<")) {
      const size_t end = text_.find('>', position_);
      if (end == std::string_view::npos) {
        fail("a group's name has no end");
        return {};
      }
      position_ = end + 1;
    } else if (take("?")) {
      fail("the construct '(?" + std::string(text_.substr(position_, 2)) + "' is not known");
      return {};
    }
    PatternNode inner = choice(depth + 1);
    if (!problem_ && !take(")")) fail("it has an unmatched '('");
    if (kind == Kind::kChoice) return inner;
    PatternNode node{kind, {}, {}, 0, {}};
    node.children.push_back(std::move(inner));
    return node;
  }

  PatternNode escape() {
    PatternNode node;
    if (done()) {
      fail("it ends in a backslash");
      return node;
    }
    const char c = text_[position_++];
    if (c == 'A' || c == 'Z') {
      node.kind = c == 'A' ? Kind::kBegin : Kind::kEnd;
    } else if (c == 'b' || c == 'B') {
      node.kind = c == 'b' ? Kind::kWordEdge : Kind::kNoWordEdge;
    } else {
      node.kind = Kind::kBytes;
      node.bytes = escaped_bytes(c);
    }
    return node;
  }

  Bytes escaped_bytes(char c) {
    if (const auto bytes = class_escape(c)) return *bytes;
    if (const auto byte = byte_escape(c)) return one(*byte);
    fail(std::string("the escape '\\") + (c >= 0x20 && c < 0x7f ? c : '?') + "' is not known");
    return {};
  }

  /// After '[': one member is a byte, a range of bytes or an escape's class. A ']' that comes first is a member.
  Bytes byte_class() {
    Bytes bytes;
    const bool negated = take("^");
    for (bool first = true; !done() && (first || peek() != ']'); first = false) {
      const Bytes from = member();
      if (position_ + 1 < text_.size() && peek() == '-' && text_[position_ + 1] != ']') {
        ++position_;
        bytes |= span(from, member());
      } else {
        bytes |= from;
      }
    }
    if (!problem_ && !take("]")) fail("it has an unmatched '['");
    return negated ? ~bytes : bytes;
  }

  Bytes member() {
    const char c = text_[position_++];
    if (c == '\\') {
      if (done()) {
        fail("it ends in a backslash");
        return {};
      }
      return escaped_bytes(text_[position_++]);
    }
    if (static_cast<unsigned char>(c) >= 0x80) fail("it has characters outside ASCII");
    return one(c);
  }

  Bytes span(const Bytes& from, const Bytes& to) {
    if (problem_ || from.count() != 1 || to.count() != 1) {
      fail("a class has a range between things that are no single characters");
      return {};
    }
    const size_t low = from._Find_first();
    const size_t high = to._Find_first();
    if (low > high) fail("a class has a range that runs backwards");
    return range(static_cast<unsigned char>(low), static_cast<unsigned char>(high));
  }

  std::string_view text_;
  size_t position_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace

Result<PatternNode> parse_pattern(std::string_view text) { return PatternParser(text).parse(); }

}  // namespace quire
