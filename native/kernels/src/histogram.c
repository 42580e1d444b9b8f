/*
 * Bins of a histogram. Bin k has what lies in [edge k, edge k + 1), where edge k is low + k * ((high - low) / bins) in
 * double arithmetic for floats, and the smallest integer of at least low + k * (high - low) / bins for integers. One
 * multiplication gives a place among the bins; where that is so near to an edge that its error matters, the bin is
 * wrong by at most one and set right by the edges beside it.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "internal.h"

struct ck_edges {
    ck_type type;
    uint32_t bins;
    double scale;  /* bins per unit */
    double margin; /* how far, in bins, a place may be wrong */
    double shift;  /* of integers' places */
    /* Floats. */
    double low, high;
    /* Integers: with the sign bit turned they are ordered as unsigned ones. The range, both ends included. */
    uint64_t first, last;
    /* bins + 1 of them: doubles, or distances from `first`. */
    double *edge;
    uint64_t *distance;
};

static int is_float(ck_type type) { return type == CK_F32 || type == CK_F64; }

/* The integers of a type: from 0 or -2^(bits - 1). */
static void integer_bounds(ck_type type, double *smallest, double *beyond) {
    const int bits = 8 * (int) ck_element_bytes(type);
    const int is_signed = type == CK_I32 || type == CK_I64;
    *smallest = is_signed ? -ldexp(1.0, bits - 1) : 0.0;
    *beyond = ldexp(1.0, is_signed ? bits - 1 : bits);
}

ck_status ck_edges_check(const ck_call *call) {
    const double low = call->low;
    const double high = call->high;
    if (call->bins < 1 || call->bins > CK_MAX_BINS || !isfinite(low) || !isfinite(high) || !(low < high)) {
        return CK_BAD_BINS;
    }
    if (!is_float(call->type)) {
        double smallest, beyond;
        integer_bounds(call->type, &smallest, &beyond);
        const int whole = low == floor(low) && high == floor(high);
        return whole && low >= smallest && low < beyond && high <= beyond ? CK_OK : CK_BAD_BINS;
    }
    const double width = (high - low) / call->bins;
    const double step = fmax(fabs(low), fabs(high)) * DBL_EPSILON;
    return isfinite(width) && width > 16 * step && width > 16 * DBL_MIN ? CK_OK : CK_BAD_BINS;
}

/* The 64 bits of a whole number of the type, as the elements are loaded. */
static uint64_t integer_bits(double value) {
    return value < 0 ? (uint64_t) (int64_t) value : (uint64_t) value;
}

static int make_float_edges(ck_edges *edges, const ck_call *call) {
    edges->edge = malloc(((size_t) call->bins + 1) * sizeof *edges->edge);
    if (edges->edge == NULL) {
        return 0;
    }
    const double width = (call->high - call->low) / call->bins;
    for (uint32_t k = 0; k < call->bins; k++) {
        const double offset = k * width;
        edges->edge[k] = call->low + offset;
    }
    edges->edge[call->bins] = call->high;
    edges->scale = call->bins / (call->high - call->low);
    /* Of the place; of its edges, which are doubles; each with room. */
    const double step = fmax(fabs(call->low), fabs(call->high)) * DBL_EPSILON;
    edges->margin = call->bins * 8 * DBL_EPSILON + 2 * step / width;
    return 1;
}

static int make_integer_edges(ck_edges *edges, const ck_call *call) {
    edges->distance = malloc(((size_t) call->bins + 1) * sizeof *edges->distance);
    if (edges->distance == NULL) {
        return 0;
    }
    const uint64_t turn = call->type == CK_I32 || call->type == CK_I64 ? UINT64_C(1) << 63 : 0;
    edges->first = integer_bits(call->low) ^ turn;
    /* One past the last may be 2^64, of which 64 bits are 0; turned, the signed 2^63 is 0 too. */
    const uint64_t beyond = call->high >= ldexp(1.0, 64) ? 0 : integer_bits(call->high) ^ turn;
    edges->last = beyond - 1;
    /* last - first + 1 = bins * quotient + rest, in words that cannot overflow. */
    const uint64_t span_less_one = edges->last - edges->first;
    uint64_t quotient = span_less_one / call->bins;
    uint64_t rest = span_less_one % call->bins + 1;
    if (rest == call->bins) {
        quotient++;
        rest = 0;
    }
    for (uint32_t k = 0; k < call->bins; k++) {
        edges->distance[k] = k * quotient + (k * rest + call->bins - 1) / call->bins;
    }
    edges->distance[call->bins] = UINT64_MAX; /* never asked for: the last bin is not left upward */
    edges->scale = call->bins / (call->high - call->low);
    /* An integer is on an edge or at least 1 / span from it, in bins. Half of that added, it is never near one, as long
       as that is more than the place's error. */
    const double error = call->bins * 8 * DBL_EPSILON;
    edges->shift = 0.5 / (call->high - call->low);
    edges->margin = edges->shift > error ? 0 : 2 * error;
    return 1;
}

ck_edges *ck_edges_new(const ck_call *call) {
    ck_edges *const edges = calloc(1, sizeof *edges);
    if (edges == NULL) {
        return NULL;
    }
    edges->type = call->type;
    edges->bins = call->bins;
    edges->low = call->low;
    edges->high = call->high;
    if (!(is_float(call->type) ? make_float_edges(edges, call) : make_integer_edges(edges, call))) {
        free(edges);
        return NULL;
    }
    return edges;
}

void ck_edges_delete(ck_edges *edges) {
    if (edges != NULL) {
        free(edges->edge);
        free(edges->distance);
        free(edges);
    }
}

/*
 * A bin is bounded at its use, not by what is known of its place: should an element change between two reads of it
 * (its file is written to), the bin is a wrong one and still a bin.
 */
#define COUNT_FLOATS(name, T)                                                                                         \
    static void count_##name(const ck_edges *edges, const uint8_t *a, size_t n, uint64_t *counts) {                   \
        const uint32_t bins = edges->bins;                                                                            \
        const double low = edges->low, high = edges->high, scale = edges->scale, margin = edges->margin;              \
        const double *const edge = edges->edge;                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                              \
            const double x = (double) ck_load_##name(a + sizeof(T) * i);                                              \
            if (!(x >= low && x < high)) {                                                                            \
                counts[bins + (x < low ? 0 : x >= high ? 1 : 2)]++;                                                   \
                continue;                                                                                             \
            }                                                                                                         \
            const double place = (x - low) * scale;                                                                   \
            uint32_t k = (uint32_t) (int32_t) place;                                                                  \
            const double within = place - (double) (int32_t) k;                                                       \
            k = k < bins ? k : bins - 1;                                                                              \
            if (within < margin || within > 1 - margin) {                                                             \
                k -= (k > 0) & (x < edge[k]);                                                                         \
                k += (k + 1 < bins) & (x >= edge[k + 1]);                                                             \
            }                                                                                                         \
            counts[k]++;                                                                                              \
        }                                                                                                             \
    }

#define COUNT_INTEGERS(name, T, key)                                                                                  \
    static void count_##name(const ck_edges *edges, const uint8_t *a, size_t n, uint64_t *counts) {                   \
        const uint32_t bins = edges->bins;                                                                            \
        const uint64_t first = edges->first, last = edges->last;                                                      \
        const double scale = edges->scale, margin = edges->margin, shift = edges->shift;                              \
        const uint64_t *const distance = edges->distance;                                                             \
        for (size_t i = 0; i < n; i++) {                                                                              \
            const uint64_t x = key(ck_load_##name(a + sizeof(T) * i));                                                \
            if (x < first || x > last) {                                                                              \
                counts[bins + (x > last)]++;                                                                          \
                continue;                                                                                             \
            }                                                                                                         \
            const uint64_t d = x - first;                                                                             \
            const double place = (double) d * scale + shift;                                                          \
            uint32_t k = (uint32_t) (int32_t) place;                                                                  \
            const double within = place - (double) (int32_t) k;                                                       \
            k = k < bins ? k : bins - 1;                                                                              \
            if (within < margin || within > 1 - margin) {                                                             \
                k -= (k > 0) & (d < distance[k]);                                                                     \
                k += (k + 1 < bins) & (d >= distance[k + 1]);                                                         \
            }                                                                                                         \
            counts[k]++;                                                                                              \
        }                                                                                                             \
    }

#define SIGNED(value) ((uint64_t) (int64_t) (value) ^ UINT64_C(1) << 63)
#define UNSIGNED(value) ((uint64_t) (value))
COUNT_FLOATS(f32, float)
COUNT_FLOATS(f64, double)
COUNT_INTEGERS(i32, int32_t, SIGNED)
COUNT_INTEGERS(i64, int64_t, SIGNED)
COUNT_INTEGERS(u8, uint8_t, UNSIGNED)
COUNT_INTEGERS(u16, uint16_t, UNSIGNED)
COUNT_INTEGERS(u32, uint32_t, UNSIGNED)
COUNT_INTEGERS(u64, uint64_t, UNSIGNED)

void ck_edges_count(const ck_edges *edges, const uint8_t *a, size_t n, uint64_t *counts) {
    static void (*const count[CK_TYPES])(const ck_edges *, const uint8_t *, size_t, uint64_t *) = {
        count_i32, count_i64, count_f32, count_f64, count_u8, count_u16, count_u32, count_u64,
    };
    count[edges->type](edges, a, n, counts);
}
