// Every parameter of a model by name: what a checkpoint must hold, and who takes it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// One way in which a parameter appears in checkpoints: whole (id ""), or as one of the pieces that were merged ("q",
/// "gate", ...).
struct ParameterPiece {
  std::string id;
  std::vector<int64_t> shape;  ///< as the checkpoint stores it, all ranks together
};

/// A checkpoint's name for a piece of a merged parameter: ".q_proj" is piece "q" of ".qkv_proj".
struct StackedName {
  std::string_view checkpoint_part;
  std::string_view parameter_part;
  std::string_view piece;
};

/// `name` with its part `from` replaced by `to`; empty when it does not hold `from` as whole path components.
QUIRE_API std::string replace_name_part(std::string_view name, std::string_view from, std::string_view to);

/// Whether `name` is one of `prefixes` or lies below one ("a.b" lies below "a").
QUIRE_API bool lies_below(std::string_view name, std::span<const std::string> prefixes);

/// What load_weights may pass over, and whom it tells how far it is.
struct LoadOptions {
  std::span<const StackedName> stacked;
  /// Names that end so are derived values or copies that older checkpoints store; they are passed over.
  std::vector<std::string> ignored_suffixes;
  /// Called after each tensor with its stored bytes.
  std::function<void(int64_t bytes)> progress;
};

/// Layers register their parameters when they are built; load() then fills all of them from a checkpoint or says which
/// tensors are missing, unexpected or misshapen.
class QUIRE_API ParameterTable {
 public:
  /// Takes one piece of a parameter, this rank's share of it.
  using Load = std::function<Status(const WeightSource& source, const WeightInfo& weight, std::string_view piece)>;

  /// `whole` is the shape in a checkpoint that stores the parameter as one tensor; `pieces` those of one that stores
  /// its parts (empty where there is no such form).
  void add(std::string name, std::vector<int64_t> whole, std::vector<ParameterPiece> pieces, Load load);

  /// Tensors whose names begin with `prefix` (whole path components) are loaded by another pipeline stage.
  void add_elsewhere(std::string prefix) { elsewhere_.push_back(std::move(prefix)); }

  /// Unexpected tensors whose name `expression` (ECMAScript's syntax) matches in any part are passed over, which load()
  /// logs. Empty: none. An Error says what is wrong with the expression.
  Status ignore_unexpected(const std::string& expression);

  /// Judges the whole checkpoint first: an Error names the tensors that are missing, misshapen or unexpected before
  /// anything is read.
  Status load(const WeightSource& source, const LoadOptions& options);

 private:
  struct Parameter {
    std::vector<int64_t> whole;
    std::vector<ParameterPiece> pieces;
    Load load;
    std::set<std::string, std::less<>> loaded;
  };
  struct Target {
    Parameter* parameter = nullptr;
    std::string_view piece;
  };

  /// What a checkpoint has for this table.
  struct Plan {
    std::vector<Target> targets;  ///< of each tensor; without a parameter where it is passed over
    std::vector<std::string> misshapen;
    std::vector<std::string> unexpected;
  };

  Target find(std::string_view checkpoint_name, std::span<const StackedName> stacked);
  /// As the checkpoint must have it; nullptr where the parameter has no such piece.
  static const std::vector<int64_t>* shape_of(const Target& target);
  Plan plan(const WeightSource& source, const LoadOptions& options);
  std::vector<std::string> missing(std::span<const StackedName> stacked) const;

  /// Takes out of `names` those that ignore_unexpected() covers, and says so.
  void pass_over(std::vector<std::string>& names, const std::string& where) const;

  std::map<std::string, Parameter, std::less<>> parameters_;
  std::function<bool(std::string_view name)> ignored_;
  std::vector<std::string> elsewhere_;
};

}  // namespace quire
