#include "engine/reference_decoder.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quire::testing {
namespace {

using Vector = std::vector<double>;

constexpr double kEpsilon = 1e-6;

class ReferenceDecoder {
 public:
  ReferenceDecoder(const DecoderShape& shape, const TensorMap& tensors) : shape_(shape), tensors_(tensors) {}

  std::vector<Vector> run(const std::vector<int32_t>& tokens) const {
    std::vector<Vector> x;
    for (const int32_t token : tokens) x.push_back(embedding(token));
    for (int64_t layer = 0; layer < shape_.layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer);
      attend(prefix, layer, x);
      for (Vector& row : x) feed_forward(prefix, row);
    }
    for (Vector& row : x) row = log_softmax(linear(head_name(), norm("model.norm", row)));
    return x;
  }

 private:
  std::string head_name() const { return shape_.tied ? "model.embed_tokens" : "lm_head"; }
  const std::vector<float>& values(const std::string& name) const { return tensors_.at(name).values; }

  Vector embedding(int32_t token) const {
    const auto begin = values("model.embed_tokens.weight").begin() + token * shape_.hidden;
    return {begin, begin + shape_.hidden};
  }

  Vector linear(const std::string& name, const Vector& x) const {
    const std::vector<float>& weight = values(name + ".weight");
    Vector out(weight.size() / x.size());
    const auto bias = tensors_.find(name + ".bias");
    for (size_t row = 0; row < out.size(); ++row) {
      double sum = bias == tensors_.end() ? 0.0 : static_cast<double>(bias->second.values[row]);
      for (size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(weight[row * x.size() + i]) * x[i];
      out[row] = sum;
    }
    return out;
  }

  Vector norm(const std::string& name, const Vector& x) const {
    const std::vector<float>& weight = values(name + ".weight");
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + kEpsilon);
    Vector out(x.size());
    for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * static_cast<double>(weight[i]);
    return out;
  }

  /// One projection of a row, cut into heads; queries and keys are normed (qwen3) and rotated.
  std::vector<Vector> heads(const std::string& prefix, char kind, const Vector& x, size_t position) const {
    const Vector all = linear(prefix + ".self_attn." + kind + "_proj", x);
    std::vector<Vector> heads;
    for (auto begin = all.begin(); begin != all.end(); begin += shape_.head_dim) {
      Vector head(begin, begin + shape_.head_dim);
      if (kind != 'v' && shape_.family == "qwen3") head = norm(prefix + ".self_attn." + kind + "_norm", head);
      heads.push_back(kind == 'v' ? head : rotate(head, position));
    }
    return heads;
  }

  Vector rotate(const Vector& head, size_t position) const {
    Vector out(head.size());
    const size_t half = head.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      const double exponent = static_cast<double>(2 * i) / static_cast<double>(head.size());
      const double angle = static_cast<double>(position) * scaled(1 / std::pow(shape_.theta, exponent));
      out[i] = head[i] * std::cos(angle) - head[half + i] * std::sin(angle);
      out[half + i] = head[half + i] * std::cos(angle) + head[i] * std::sin(angle);
    }
    return out;
  }

  /// A frequency in radians a token: slow ones are divided by the factor, fast ones kept, those between blended by how
  /// many turns they take within the original context.
  double scaled(double frequency) const {
    if (shape_.llama3.factor == 1.0) return frequency / shape_.linear_factor;
    const auto& [factor, low, high, original_length] = shape_.llama3;
    const double turns = original_length * frequency / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    return frequency * (kept + (1 - kept) / factor);
  }

  void attend(const std::string& prefix, int64_t layer, std::vector<Vector>& x) const {
    std::vector<std::vector<Vector>> q, k, v;
    for (size_t position = 0; position < x.size(); ++position) {
      const Vector normed = norm(prefix + ".input_layernorm", x[position]);
      q.push_back(heads(prefix, 'q', normed, position));
      k.push_back(heads(prefix, 'k', normed, position));
      v.push_back(heads(prefix, 'v', normed, position));
    }
    const auto window = static_cast<size_t>(shape_.window(layer));
    for (size_t position = 0; position < x.size(); ++position) {
      const size_t begin = window > 0 && position + 1 > window ? position + 1 - window : 0;
      Vector joined;
      for (size_t head = 0; head < q[position].size(); ++head) {
        const size_t kv_head = head / (q[position].size() / k[position].size());
        const Vector attended = one_head(q[position][head], k, v, kv_head, begin, position);
        joined.insert(joined.end(), attended.begin(), attended.end());
      }
      add(x[position], linear(prefix + ".self_attn.o_proj", joined));
    }
  }

  Vector one_head(const Vector& query, const std::vector<std::vector<Vector>>& k,
                  const std::vector<std::vector<Vector>>& v, size_t kv_head, size_t begin, size_t end) const {
    Vector scores;
    for (size_t other = begin; other <= end; ++other) {
      double score = 0;
      for (size_t i = 0; i < query.size(); ++i) score += query[i] * k[other][kv_head][i];
      scores.push_back(score / std::sqrt(static_cast<double>(shape_.head_dim)));
    }
    scores = log_softmax(scores);
    Vector out(query.size());
    for (size_t other = begin; other <= end; ++other) {
      for (size_t i = 0; i < out.size(); ++i) out[i] += std::exp(scores[other - begin]) * v[other][kv_head][i];
    }
    return out;
  }

  void feed_forward(const std::string& prefix, Vector& x) const {
    const Vector normed = norm(prefix + ".post_attention_layernorm", x);
    Vector gate = linear(prefix + ".mlp.gate_proj", normed);
    const Vector up = linear(prefix + ".mlp.up_proj", normed);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = activate(gate[i]) * up[i];
    add(x, linear(prefix + ".mlp.down_proj", gate));
  }

  double activate(double x) const {
    if (shape_.activation == "gelu") return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    if (shape_.activation == "relu") return std::max(0.0, x);
    return x / (1 + std::exp(-x));
  }

  static void add(Vector& x, const Vector& more) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
  }

  static Vector log_softmax(const Vector& x) {
    const double top = *std::ranges::max_element(x);
    double sum = 0;
    for (const double value : x) sum += std::exp(value - top);
    Vector out;
    for (const double value : x) out.push_back(value - top - std::log(sum));
    return out;
  }

  const DecoderShape& shape_;
  const TensorMap& tensors_;
};

}  // namespace

std::vector<std::vector<double>> reference_logprobs(const DecoderShape& shape, const TensorMap& tensors,
                                                    const std::vector<int32_t>& tokens) {
  return ReferenceDecoder(shape, tensors).run(tokens);
}

}  // namespace quire::testing
