// Means and percentiles of measured values.
#pragma once

#include <vector>

namespace quire::cli {

struct Summary {
  double mean = 0, median = 0, standard_deviation = 0;  ///< of the population; all 0 for no values
};

Summary summarize(const std::vector<double>& values);

/// The p-th percentile (0..100), interpolated linearly between neighbours as numpy.percentile does; 0 for no values.
double percentile(std::vector<double> values, double p);

inline double median(const std::vector<double>& values) { return percentile(values, 50); }

}  // namespace quire::cli
