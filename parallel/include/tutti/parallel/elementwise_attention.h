// AttentionCompute written once for every processor (elementwise_compute.h): an index is a row of queries, or of keys
// and values. Each row adds up in the order of positions, whatever the blocks are.
//
// Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/attention_compute.h"
#include "tutti/parallel/elementwise_compute.h"

namespace tutti::parallel {

// HeadRows in the form that per-index functions take.
template <typename T>
struct HeadRowsOf {
  T* data;
  std::size_t positions, lanes, group, width, stride;

  // REQUIRES: rows of T.
  explicit HeadRowsOf(const HeadRows& rows)
      : data(static_cast<T*>(rows.data)),
        positions(rows.positions),
        lanes(rows.lanes),
        group(rows.group),
        width(rows.width),
        stride(rows.stride) {}

  TUTTI_ANY_PROCESSOR T* at(std::size_t position, std::size_t lane) const {
    return data + (position * (lanes / group) + lane / group) * stride + lane % group * width;
  }
  TUTTI_ANY_PROCESSOR T* row(std::size_t row) const { return at(row / lanes, row % lanes); }
};

template <typename T>
TUTTI_ANY_PROCESSOR inline void add_scaled(const T* from, float factor, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += to_float(from[i]) * factor;
}

// A row of queries takes in the keys and values that it sees.
template <typename T>
struct AttendQuery {
  HeadRowsOf<T> q, k, v;
  AttentionMask mask;
  std::size_t lead;
  HeadRowsOf<float> out, maxima, sums;
  float scale;

  TUTTI_ANY_PROCESSOR void operator()(std::size_t row) const {
    const std::size_t lane = row % q.lanes, key_lane = lane / (q.lanes / k.lanes);
    const T* const query = q.row(row);
    float *const to = out.row(row), &maximum = *maxima.row(row), &sum = *sums.row(row);
    const auto [begin, end] = visible_keys(mask, lead, row / q.lanes, k.positions);
    for (std::size_t key = begin; key < end; ++key) {
      const float score = row_dot(query, k.at(key, key_lane), q.width) * scale;
      // The sums so far are relative to a smaller maximum.
      if (sum == 0 || score > maximum) {
        const float factor = sum == 0 ? 0 : std::exp(maximum - score);
        for (std::size_t i = 0; i < q.width; ++i) to[i] *= factor;
        sum *= factor;
        maximum = score;
      }
      const float weight = std::exp(score - maximum);
      sum += weight;
      add_scaled(v.at(key, key_lane), weight, to, q.width);
    }
  }
};

template <typename T>
struct FinishQuery {
  HeadRowsOf<float> sum_of_values, maxima, sums;
  HeadRowsOf<T> out;

  TUTTI_ANY_PROCESSOR void operator()(std::size_t row) const {
    const float sum = *sums.row(row);
    for (std::size_t i = 0; i < out.width; ++i) assign(out.row(row)[i], sum_of_values.row(row)[i] / sum);
    *maxima.row(row) += std::log(sum);
  }
};

template <typename T>
struct DeltaOfQuery {
  HeadRowsOf<T> out, grad_out;
  HeadRowsOf<float> delta;

  TUTTI_ANY_PROCESSOR void operator()(std::size_t row) const {
    *delta.row(row) = row_dot(out.row(row), grad_out.row(row), out.width);
  }
};

// The softmax's probability of each query and key, and its gradient: p (grad_out . value - delta).
template <typename T>
struct BackwardScores {
  HeadRowsOf<T> q, k, v, grad_out;
  HeadRowsOf<float> lse, delta;
  AttentionMask mask;
  std::size_t lead;
  float scale;

  TUTTI_ANY_PROCESSOR std::size_t queries_of_a_key() const { return q.lanes / k.lanes; }
  // `lane` is the query's.
  TUTTI_ANY_PROCESSOR float probability(std::size_t query, std::size_t key, std::size_t lane) const {
    return std::exp(row_dot(q.at(query, lane), k.at(key, lane / queries_of_a_key()), q.width) * scale -
                    *lse.at(query, lane));
  }
  TUTTI_ANY_PROCESSOR float gradient(std::size_t query, std::size_t key, std::size_t lane, float p) const {
    return p *
           (row_dot(grad_out.at(query, lane), v.at(key, lane / queries_of_a_key()), v.width) - *delta.at(query, lane)) *
           scale;
  }
};

template <typename T>
struct GradientOfQuery {
  BackwardScores<T> scores;
  HeadRowsOf<float> grad_q;

  TUTTI_ANY_PROCESSOR void operator()(std::size_t row) const {
    const std::size_t query = row / grad_q.lanes, lane = row % grad_q.lanes;
    const auto [begin, end] = visible_keys(scores.mask, scores.lead, query, scores.k.positions);
    for (std::size_t key = begin; key < end; ++key) {
      const float gradient = scores.gradient(query, key, lane, scores.probability(query, key, lane));
      add_scaled(scores.k.at(key, lane / scores.queries_of_a_key()), gradient, grad_q.row(row), grad_q.width);
    }
  }
};

template <typename T>
struct GradientOfKeyAndValue {
  BackwardScores<T> scores;
  HeadRowsOf<float> grad_k, grad_v;

  TUTTI_ANY_PROCESSOR void operator()(std::size_t row) const {
    const std::size_t key = row / grad_k.lanes, group = scores.queries_of_a_key();
    const auto [begin, end] = visible_queries(scores.mask, scores.lead, key, scores.q.positions);
    for (std::size_t query = begin; query < end; ++query) {
      for (std::size_t lane = row % grad_k.lanes * group, last = lane + group; lane < last; ++lane) {
        const float p = scores.probability(query, key, lane);
        add_scaled(scores.q.at(query, lane), scores.gradient(query, key, lane, p), grad_k.row(row), grad_k.width);
        add_scaled(scores.grad_out.at(query, lane), p, grad_v.row(row), grad_v.width);
      }
    }
  }
};

// Processor: an ElementwiseCompute.
template <typename Processor>
class ElementwiseAttention final : public AttentionCompute {
 public:
  // `on` outlives this.
  explicit ElementwiseAttention(Processor& on) : on_(on) {}

  Compute& compute() override { return on_; }

  void attend(const AttentionInputs& inputs, const SoftmaxState& state) override {
    ByType(inputs.q, [&]<typename T>(T /*element*/) {
      on_.for_each(inputs.q.rows(),
                   AttendQuery<T>{HeadRowsOf<T>(inputs.q), HeadRowsOf<T>(inputs.k), HeadRowsOf<T>(inputs.v),
                                  inputs.mask, inputs.lead, HeadRowsOf<float>(state.out),
                                  HeadRowsOf<float>(state.maxima), HeadRowsOf<float>(state.sums), ScaleOf(inputs.q)});
    });
  }

  void finish(const SoftmaxState& state, const HeadRows& out) override {
    ByType(out, [&]<typename T>(T /*element*/) {
      on_.for_each(out.rows(), FinishQuery<T>{HeadRowsOf<float>(state.out), HeadRowsOf<float>(state.maxima),
                                              HeadRowsOf<float>(state.sums), HeadRowsOf<T>(out)});
    });
  }

  void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) override {
    ByType(out, [&]<typename T>(T /*element*/) {
      on_.for_each(out.rows(), DeltaOfQuery<T>{HeadRowsOf<T>(out), HeadRowsOf<T>(grad_out), HeadRowsOf<float>(delta)});
    });
  }

  // Rows of queries first, then rows of keys and values, so that each index writes its own rows only; both compute the
  // probabilities again.
  void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                       const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                       const HeadRows& grad_v) override {
    ByType(inputs.q, [&]<typename T>(T /*element*/) {
      const BackwardScores<T> scores{HeadRowsOf<T>(inputs.q),
                                     HeadRowsOf<T>(inputs.k),
                                     HeadRowsOf<T>(inputs.v),
                                     HeadRowsOf<T>(grad_out),
                                     HeadRowsOf<float>(lse),
                                     HeadRowsOf<float>(delta),
                                     inputs.mask,
                                     inputs.lead,
                                     ScaleOf(inputs.q)};
      on_.for_each(grad_q.rows(), GradientOfQuery<T>{scores, HeadRowsOf<float>(grad_q)});
      on_.for_each(grad_k.rows(),
                   GradientOfKeyAndValue<T>{scores, HeadRowsOf<float>(grad_k), HeadRowsOf<float>(grad_v)});
    });
  }

 private:
  static float ScaleOf(const HeadRows& q) { return 1 / std::sqrt(static_cast<float>(q.width)); }
  // Calls call(an element of that type).
  template <typename Call>
  static void ByType(const HeadRows& rows, const Call& call) {
    rows.dtype == tuttiBfloat16 ? call(BFloat16{}) : call(float{});
  }

  Processor& on_;
};

}  // namespace tutti::parallel
