#include "engine/ranks/step_codec.h"

#include <cstring>
#include <span>

namespace quire {
namespace {

// A message is a row of 32-bit words: the number of sequences, then each sequence's fixed part and its lists, each with
// its length before it.

class Writer {
 public:
  explicit Writer(std::string& message) : message_(message) { message_.clear(); }
  void word(int64_t value) {
    const auto narrow = static_cast<int32_t>(value);
    message_.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  }
  void wide(uint64_t value) { message_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void list(std::span<const int32_t> values) {
    word(static_cast<int64_t>(values.size()));
    message_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }

 private:
  std::string& message_;
};

/// Gives zeros and empty lists once it has been asked for more than there is.
class Reader {
 public:
  explicit Reader(std::span<const int32_t> words) : words_(words) {}
  int32_t word() {
    const std::span<const int32_t> one = take(1);
    return one.empty() ? 0 : one[0];
  }
  uint64_t wide() {
    uint64_t value = 0;
    const std::span<const int32_t> two = take(2);
    if (!two.empty()) std::memcpy(&value, two.data(), sizeof(value));
    return value;
  }
  std::span<const int32_t> list() { return take(word()); }
  size_t left() const { return words_.size(); }
  bool failed() const { return failed_; }

 private:
  std::span<const int32_t> take(int32_t count) {
    if (failed_ || count < 0 || static_cast<size_t>(count) > words_.size()) {
      failed_ = true;
      return {};
    }
    const std::span<const int32_t> taken = words_.first(static_cast<size_t>(count));
    words_ = words_.subspan(static_cast<size_t>(count));
    return taken;
  }

  std::span<const int32_t> words_;
  bool failed_ = false;
};

void write(const ScheduledSequence& sequence, Writer& writer) {
  writer.wide(static_cast<uint64_t>(sequence.start));
  writer.wide(sequence.adapter_id);
  writer.word(sequence.sample ? 1 : 0);
  writer.list(sequence.tokens);
  writer.list(sequence.next_prompt_tokens);
  writer.word(static_cast<int64_t>(sequence.block_tables.size()));
  for (const std::span<const int32_t> table : sequence.block_tables) writer.list(table);
}

ScheduledSequence read(Reader& reader) {
  ScheduledSequence sequence;
  sequence.start = static_cast<int64_t>(reader.wide());
  sequence.adapter_id = reader.wide();
  sequence.sample = reader.word() != 0;
  sequence.tokens = reader.list();
  sequence.next_prompt_tokens = reader.list();
  const int32_t tables = reader.word();
  for (int32_t i = 0; i < tables && !reader.failed(); ++i) sequence.block_tables.push_back(reader.list());
  return sequence;
}

}  // namespace

void encode_step(const StepPlan& plan, std::string& message) {
  Writer writer(message);
  writer.word(static_cast<int64_t>(plan.sequences.size()));
  for (const ScheduledSequence& sequence : plan.sequences) write(sequence, writer);
}

Status ReceivedStep::decode(const std::string& message) {
  words_.resize(message.size() / sizeof(int32_t));
  if (!words_.empty()) std::memcpy(words_.data(), message.data(), words_.size() * sizeof(int32_t));
  Reader reader(words_);
  plan_ = {};
  const int32_t sequences = reader.word();
  for (int32_t i = 0; i < sequences && !reader.failed(); ++i) {
    plan_.sequences.push_back(read(reader));
    plan_.total_tokens += static_cast<int64_t>(plan_.sequences.back().tokens.size());
  }
  if (!reader.failed() && reader.left() == 0) return {};
  plan_ = {};
  return internal_error("rank 0 sent a step's plan of " + std::to_string(message.size()) + " bytes that is none");
}

}  // namespace quire
