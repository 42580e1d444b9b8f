/* Between the parts of the library. */
#ifndef CK_INTERNAL_H
#define CK_INTERNAL_H

#include <float.h>
#include <string.h>

#include "covey-kernels.h"

/*
 * What sums are exact by: each operation is rounded to its type, once, and done as it is written. The build asks for
 * that; here it is made sure of, whatever came from somebody's environment.
 */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "the kernels need floating point as the standard has it: no -ffast-math"
#endif
/* 16 is said where there are floats of 16 bits; doubles are doubles there too. */
#if !defined(_MSC_VER) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "the kernels need doubles that are computed as doubles: -mfpmath=sse"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernels read little-endian elements as they are"
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#pragma fp_contract(off)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sums of floats run in 16 lanes of doubles, in every instruction set alike: element i of a block goes to lane
 * i mod 16, whose sum and error term see the very same additions, so that all sets give the same bits.
 */
enum { CK_LANES = 16 };
typedef struct ck_lanes {
    double sum[CK_LANES];
    double error[CK_LANES];
} ck_lanes;

/* Smallest and largest of a block, as 64-bit integers (signed or not as the type is) or bits of doubles. */
typedef struct ck_extremes {
    uint64_t smallest, largest;
    uint64_t nan; /* there is a smallest when the block has more elements than that */
} ck_extremes;

typedef struct ck_total {
    uint64_t low, high; /* 128 bits */
} ck_total;

typedef void (*ck_sum_integer)(const uint8_t *a, size_t n, ck_total *total);
typedef void (*ck_sum_float)(const uint8_t *a, size_t n, ck_lanes *lanes);
typedef void (*ck_dot_integer)(const uint8_t *a, const uint8_t *b, size_t n, ck_total *total);
typedef void (*ck_dot_float)(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes);
typedef void (*ck_find_extremes)(const uint8_t *a, size_t n, ck_extremes *extremes);

/* What there is of one instruction set: each works on one block, and sets (not adds to) its last argument. */
typedef struct ck_ops {
    ck_sum_integer sum_i32, sum_i64;
    ck_sum_float sum_f32, sum_f64;
    ck_dot_integer dot_i32;
    ck_dot_float dot_f32, dot_f64;
    /* Of whole 64-bit words. */
    uint64_t (*xor_words)(const uint8_t *a, size_t words);
    ck_find_extremes extremes[CK_TYPES];
} ck_ops;

extern const ck_ops ck_ops_scalar;
extern const ck_ops ck_ops_avx2;
extern const ck_ops ck_ops_neon;
/* What there is of AVX-512; the rest is AVX2. */
void ck_avx512_sum_f32(const uint8_t *a, size_t n, ck_lanes *lanes);
void ck_avx512_dot_f32(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes);

/* Returns 0 when this processor does not have it; CK_ISA_BEST is always there. */
int ck_ops_of(ck_isa isa, ck_ops *ops);

/* Elements at any address. */
#define CK_LOAD(T, name)                                                                                              \
    static inline T ck_load_##name(const uint8_t *at) {                                                               \
        T value;                                                                                                      \
        memcpy(&value, at, sizeof value);                                                                             \
        return value;                                                                                                 \
    }
CK_LOAD(int32_t, i32)
CK_LOAD(int64_t, i64)
CK_LOAD(float, f32)
CK_LOAD(double, f64)
CK_LOAD(uint8_t, u8)
CK_LOAD(uint16_t, u16)
CK_LOAD(uint32_t, u32)
CK_LOAD(uint64_t, u64)
#undef CK_LOAD

static inline uint64_t ck_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double ck_bits_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/*
 * Adds to a lane's sum and takes the exact error of that addition (Knuth's TwoSum) to its error term. Must not be
 * contracted to other operations: the build sees to that.
 */
static inline void ck_two_sum(double *sum, double *error, double value) {
    const double total = *sum + value;
    const double part = total - *sum;
    *error += (*sum - (total - part)) + (value - part);
    *sum = total;
}

/* The last elements of a block, fewer than lanes, after the vectors: element i to lane i. */
void ck_tail_sum_f32(const uint8_t *a, size_t n, ck_lanes *lanes);
void ck_tail_sum_f64(const uint8_t *a, size_t n, ck_lanes *lanes);
void ck_tail_dot_f32(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes);
void ck_tail_dot_f64(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes);

/* Where the bins of a histogram lie. */
typedef struct ck_edges ck_edges;
ck_edges *ck_edges_new(const ck_call *call);
void ck_edges_delete(ck_edges *edges);
/* Adds a block to bins + 3 counts (see ck_partial). */
void ck_edges_count(const ck_edges *edges, const uint8_t *a, size_t n, uint64_t *counts);
/* Of the call's bins alone. */
ck_status ck_edges_check(const ck_call *call);

/* Adds a block's result. */
void ck_partial_add_total(ck_partial *partial, const ck_total *total);
/* Returns 0 and adds nothing when a lane is not finite. */
int ck_partial_add_lanes(ck_partial *partial, const ck_lanes *lanes);
void ck_partial_add_extremes(ck_partial *partial, const ck_extremes *extremes, uint64_t elements);
/*
 * For blocks whose lanes are not finite. Elements (products) that are not finite decide the total alone: then they are
 * counted and nothing is summed. Where there are none, a lane has overflown, and each is added exactly.
 */
void ck_partial_add_sum(ck_partial *partial, const uint8_t *a, size_t n);
void ck_partial_add_dot(ck_partial *partial, const uint8_t *a, const uint8_t *b, size_t n);

/*
 * Calls work(context) and returns 1; returns 0 when a page in one of the two ranges could not be read (SIGBUS), in
 * which case work was left in the middle.
 */
int ck_guarded(void (*work)(void *context), void *context, const void *a, const void *b, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
