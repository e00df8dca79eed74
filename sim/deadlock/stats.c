#include "sim/deadlock/stats.h"

#include <math.h>

struct rondo_sim_interval rondo_sim_wilson(uint64_t hits, uint64_t trials) {
  if (trials == 0) {
    return (struct rondo_sim_interval){0, 1};
  }
  const double z = 1.959963984540054; // the 97.5 % point of the normal distribution
  double n = (double)trials, p = (double)hits / n;
  double middle = p + z * z / (2 * n);
  double half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  double low = (middle - half) / (1 + z * z / n), high = (middle + half) / (1 + z * z / n);
  return (struct rondo_sim_interval){hits == 0 ? 0 : low, hits == trials ? 1 : high};
}

// With r collectives left besides the next one, a GPU skips k of them with probability p^k (1 - p)
// for k < r, and p^r for k = r. Each order has exactly one sequence of such numbers, so all GPUs
// agree with the product over r of the sums over k of these probabilities to the power of `gpus`.
double rondo_sim_one_group(uint32_t gpus, uint32_t collectives, double disorder) {
  double log_agree = 0, p = disorder;
  for (uint32_t left = 1; left < collectives && gpus > 1; left++) {
    // The first term carries nearly everything, so it is added in logarithms.
    double first = p < 1 ? gpus * log1p(-p) : -INFINITY, rest = pow(p, (double)gpus * left);
    for (uint32_t k = 1; k < left; k++) {
      double term = pow(p, (double)gpus * k) * pow(1 - p, gpus);
      if (term < 1e-18) {
        break;
      }
      rest += term;
    }
    log_agree += rest > 0 ? log(exp(first) + rest) : first;
  }
  return -expm1(log_agree);
}
