// The program `quire`: its commands, and what becomes of a wrong command line.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace quire::cli {

/// Exit codes: 0 done; 1 a failure at start or at work; 2 a wrong command line. Failures are one sentence on `err`.
int run_program(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

/// vLLM's spellings as CLI11 takes them: --max_model_len as --max-model-len, -tp 2 as --tensor-parallel-size 2. What
/// follows "--" is left alone.
std::vector<std::string> normalize_arguments(std::vector<std::string> arguments);

/// The candidate nearest to `word` by edit distance, or "" when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace quire::cli
