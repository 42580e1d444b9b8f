/* Sums of doubles without rounding. */
#ifndef CK_EXACT_H
#define CK_EXACT_H

#include "covey-kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds a finite double. */
void ck_exact_add(ck_exact *sum, double value);
void ck_exact_merge(ck_exact *into, const ck_exact *from);
/* The nearest double, ties to even; beyond the largest an infinity. */
double ck_exact_value(const ck_exact *sum);

/* 128 bits in two words, two's complement. */
static inline void ck_add_128(uint64_t *low, uint64_t *high, uint64_t add_low, uint64_t add_high) {
    *low += add_low;
    *high += add_high + (*low < add_low);
}

#ifdef __cplusplus
}
#endif

#endif
