#include "checkpoint/json_document.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/printable.h"
#include "checkpoint/wrong_file.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;

/// Judges the parser's events. It keeps every value; a problem is noted and reported when parsing has ended.
class Watch {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (static_cast<size_t>(depth) > kMaxDepth) problem_ = "it is nested more than 64 deep";
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      problem_ = "the key " + quote_name(parsed.get<std::string>()) + " appears twice";
    }
    return !problem_;
  }
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  std::vector<std::unordered_set<std::string>> keys_;
  std::optional<std::string> problem_;
};

}  // namespace

Result<json> parse_json_object(std::string_view text, const std::string& where) {
  Watch watch;
  try {
    json parsed = json::parse(text, std::ref(watch));
    if (watch.problem()) return invalid_argument(where + " cannot be read: " + *watch.problem());
    if (!parsed.is_object()) return invalid_argument(where + " must hold a JSON object");
    return parsed;
  } catch (const json::parse_error& error) {
    if (watch.problem()) return invalid_argument(where + " cannot be read: " + *watch.problem());
    return invalid_argument(where + " is not valid JSON (at byte " + std::to_string(error.byte) + ")");
  } catch (const json::exception&) {
    return invalid_argument(where + " is not valid JSON");
  }
}

Result<std::string> read_json_text(const std::filesystem::path& path, size_t most_mebibytes) {
  const size_t most_bytes = most_mebibytes << 20;
  QUIRE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::copy(path, most_bytes + 1));
  if (const auto hint = wrong_file_hint(file.bytes())) return invalid_argument(path.string() + " " + *hint);
  if (file.size() > most_bytes) {
    return invalid_argument(path.string() + " is larger than " + std::to_string(most_mebibytes) + " MiB");
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

Result<json> read_json_object(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_json_text(path));
  return parse_json_object(text, path.string());
}

}  // namespace quire
